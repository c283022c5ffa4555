package fire

import (
	"errors"
	"testing"
	"time"

	netresearch "github.com/netresearch/go-cron"
	robfig "github.com/robfig/cron/v3"

	"holdfast/zk"
)

func parse(t *testing.T, spec string) []Schedule {
	t.Helper()
	a, err := robfig.ParseStandard(spec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := netresearch.ParseStandard(spec)
	if err != nil {
		t.Fatal(err)
	}
	return []Schedule{a, b}
}

func TestTheFireIsTheLastTimeOfTheSchedule(t *testing.T) {
	for _, tt := range []struct{ spec, now, want string }{
		{"*/5 * * * *", "2026-03-01T10:05:00Z", "2026-03-01T10:05:00Z"},
		{"*/5 * * * *", "2026-03-01T10:05:00.3Z", "2026-03-01T10:05:00Z"},
		{"*/5 * * * *", "2026-03-01T10:04:59.9Z", "2026-03-01T10:05:00Z"},
		{"*/5 * * * *", "2026-03-01T10:07:29Z", "2026-03-01T10:05:00Z"},
		{"*/5 * * * *", "2026-03-01T10:07:31Z", "2026-03-01T10:05:00Z"},
		{"*/5 * * * *", "2026-03-01T10:09:29Z", "2026-03-01T10:05:00Z"},
		{"*/5 * * * *", "2026-03-01T10:09:31Z", "2026-03-01T10:10:00Z"},
		{"0 2 * * *", "2026-03-01T20:00:00Z", "2026-03-01T02:00:00Z"}, // by hand
		{"0 2 * * *", "2026-03-02T01:59:25Z", "2026-03-01T02:00:00Z"},
		{"0 2 * * *", "2026-03-01T02:00:00.01Z", "2026-03-01T02:00:00Z"},
		{"0 2 * * *", "2026-03-01T13:59:00Z", "2026-03-01T02:00:00Z"},
		{"0 9 * * MON-FRI", "2026-03-06T09:00:01Z", "2026-03-06T09:00:00Z"},
		{"0 9 * * MON-FRI", "2026-03-07T20:00:00Z", "2026-03-06T09:00:00Z"},
		{"0,5 * * * *", "2026-03-01T10:05:01Z", "2026-03-01T10:05:00Z"},
		{"0 0 29 2 *", "2028-02-29T00:00:02Z", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "2028-02-28T23:59:59Z", "2028-02-29T00:00:00Z"},
	} {
		for _, s := range parse(t, tt.spec) {
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			if got := at(s, now).Format(time.RFC3339); got != tt.want {
				t.Errorf("%T %s at %s is the fire of %s; want %s", s, tt.spec, tt.now, got, tt.want)
			}
		}
	}
}

// For every moment, a job that starts late or a little early has the fire's time.
func FuzzEachFireHasOneName(f *testing.F) {
	f.Add(int64(1772000000), uint16(7), true)
	f.Fuzz(func(t *testing.T, second int64, late uint16, sparse bool) {
		spec := "*/7 3,4,19 * * *"
		if sparse {
			spec = "13 4 31 1,3,5 *"
		}
		for _, s := range parse(t, spec) {
			fire := s.Next(time.Unix(second%(1<<33), 0).UTC())
			if fire.IsZero() {
				continue
			}
			for _, started := range []time.Time{fire, fire.Add(time.Duration(late) * time.Millisecond), fire.Add(-time.Duration(late) * time.Millisecond % early)} {
				if got := at(s, started); !got.Equal(fire) {
					t.Errorf("%T: a start at %v is the fire of %v; want %v", s, started, got, fire)
				}
			}
		}
	})
}

// If the times are close, a start belongs to the nearest one.
func TestTheFireOfAScheduleWithSeconds(t *testing.T) {
	for _, tt := range []struct{ ms, want int }{{0, 0}, {1900, 0}, {2100, 4000}, {3900, 4000}, {5900, 4000}} {
		s, err := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow).Parse("*/4 * * * * *")
		if err != nil {
			t.Fatal(err)
		}
		day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		got := at(s, day.Add(time.Duration(tt.ms)*time.Millisecond)).Sub(day)
		if want := time.Duration(tt.want) * time.Millisecond; got != want {
			t.Errorf("after %d ms, the fire is %v; want %v", tt.ms, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	daily := parse(t, "@daily")[0]
	for name, try := range map[string]func() (*Job, error){
		"no name":     func() (*Job, error) { return New(nil, "/jobs", "", daily, nil) },
		"no schedule": func() (*Job, error) { return New(nil, "/jobs", "a", nil, nil) },
		"a wait of 0": func() (*Job, error) {
			return New(nil, "/jobs", "a", daily, []Option{Wait(0)})
		},
		"@every of robfig":      func() (*Job, error) { return New(nil, "/jobs", "a", parse(t, "@every 5m")[0], nil) },
		"@every of netresearch": func() (*Job, error) { return New(nil, "/jobs", "a", parse(t, "@every 5m")[1], nil) },
	} {
		if _, err := try(); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("%s: %v; want ErrBadArguments", name, err)
		}
	}
	for _, spec := range []string{"@daily", "* * * * *", "0 0 29 2 *", "CRON_TZ=Asia/Tokyo 30 4 * * *"} {
		for _, s := range parse(t, spec) {
			if _, err := New(nil, "/jobs", "a", s, nil); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
	}
}

// The schedule is read in the zone of WithLocation, as cron reads it in that of cron.WithLocation.
func TestTheScheduleIsReadInItsZone(t *testing.T) {
	for _, s := range parse(t, "0 9 * * *") {
		j, err := New(nil, "/jobs", "a", s, []Option{func(s *Settings) {
			s.Location = time.FixedZone("Tokyo", 9*3600)
			s.Now = func() time.Time { return time.Date(2026, 3, 1, 0, 0, 1, 0, time.UTC) }
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := at(s, j.now()).UTC().Format(time.RFC3339); got != "2026-03-01T00:00:00Z" {
			t.Errorf("%T: the fire at 9 in Tokyo is %s", s, got)
		}
	}
}
