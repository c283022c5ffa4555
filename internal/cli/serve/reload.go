package serve

import (
	"context"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"

	"holdfast/zkserver"
)

// reload reads the configuration file and the files of users again, and gives their limits and
// users to a running server. If the file is invalid, nothing changes. If the users are invalid, the present users
// stay. All other settings need a restart; reload logs the names of changed ones.
func (f *settings) reload(ctx context.Context, server *zkserver.Server, log *slog.Logger) {
	fresh, flags, err := f.readAgain()
	if err != nil {
		log.Error("serve: configuration not reloaded; the present one stays in force", "err", err)
		return
	}
	if changed := f.changedForGood(flags); len(changed) > 0 {
		log.Warn("serve: changed settings need a restart", "settings", strings.Join(changed, ", "))
	}
	fresh.auth.reload(ctx, server, fresh.from, f.tls.ClientCA, log)
	if err := server.SetLimits(ctx, fresh.limits.limits); err != nil {
		log.Error("serve: limits not reloaded", "err", err)
		return
	}
	log.Info("serve: limits reloaded")
}

// readAgain returns the flags of f's command line, with the present values of the configuration file.
func (f *settings) readAgain() (*settings, *pflag.FlagSet, error) {
	fresh, flags := new(settings), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fresh.register(flags)
	var err error
	f.flags.Visit(func(given *pflag.Flag) {
		if _, inFile := f.from[given.Name]; inFile || flags.Lookup(given.Name) == nil || err != nil {
			return
		}
		values := []string{given.Value.String()}
		if many, ok := given.Value.(pflag.SliceValue); ok {
			values = many.GetSlice()
		}
		for _, v := range values {
			if err == nil {
				err = flags.Set(given.Name, v)
			}
		}
	})
	if err == nil && f.config != "" {
		fresh.from, err = ReadConfig(flags, f.config)
	}
	return fresh, flags, err
}

// changedForGood returns the names of changed flags that need a restart, sorted.
func (f *settings) changedForGood(now *pflag.FlagSet) (names []string) {
	reloaded := pflag.NewFlagSet("reloaded", pflag.ContinueOnError)
	var scratch settings
	scratch.auth.register(reloaded)
	scratch.limits.registerLimits(reloaded)
	now.VisitAll(func(flag *pflag.Flag) {
		before := f.flags.Lookup(flag.Name)
		if reloaded.Lookup(flag.Name) == nil && before.Value.String() != flag.Value.String() {
			names = append(names, flag.Name)
		}
	})
	return names
}
