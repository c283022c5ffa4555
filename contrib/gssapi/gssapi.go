// Package gssapi lets clients of holdfast authenticate to ZooKeeper servers that demand Kerberos: SASL with the mechanism
// GSSAPI (RFC 4752). It is pure Go, on [gokrb5].
//
// The protection of the mechanism is "none": nothing protects the requests that follow, as with all clients of
// ZooKeeper. Use TLS where that matters.
//
// [gokrb5]: https://github.com/jcmturner/gokrb5
package gssapi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"holdfast/zk"
)

// Config says who the client is, and where its secrets are. Give Keytab or Cache.
type Config struct {
	// Principal is the client, such as app/web1.example.com@EXAMPLE.COM. Without a realm, it is that of Krb5Conf. With
	// Cache, it may be empty: then it is the principal of the cache.
	Principal string
	// Keytab is a file with the keys of Principal. The client asks for a ticket at each connection, so nothing must be
	// renewed. Like $KRB5_KTNAME, it may begin with FILE:.
	Keytab string
	// Cache is a credential cache in a file, as kinit makes it. It is read at each connection, so kinit
	// renews the ticket. A ticket for the server that the cache has is used, too. Like $KRB5CCNAME, it may begin with
	// FILE:, as in FILE:/tmp/krb5cc_0. Caches of other types (DIR, KCM, KEYRING, …) are refused.
	Cache string
	// Krb5Conf is the configuration of Kerberos, one file; "" is $KRB5_CONFIG, or /etc/krb5.conf.
	Krb5Conf string
	// Service is the first part of the servers' principals; "" is zookeeper, as for zookeeper.sasl.client.username.
	Service string
	// ServerName is the second part. "" is the host name of the server, as zk.Config.Servers has it. It is not looked up
	// in the DNS, unlike in Java. An address is no host name.
	ServerName string
}

// New returns the identity of a client, for [zk.Config].Auth. It reads the files, so it fails if one of them is missing
// or lacks the principal. It asks no server.
//
// Each connection logs in anew: it asks the key distribution centre for a ticket for the ZooKeeper server. If that
// centre cannot be reached, the client tries the next server and goes on trying. If it refuses the principal or its key,
// the client gives up with [zk.ErrAuthFailed].
func New(cfg Config) (zk.Auth, error) {
	if (cfg.Keytab == "") == (cfg.Cache == "") {
		return zk.Auth{}, errors.New("gssapi: give Keytab or Cache, and not both")
	}
	if cfg.Keytab != "" && cfg.Principal == "" {
		return zk.Auth{}, errors.New("gssapi: a keytab needs Principal, whose key it is to use")
	}
	var err error
	if cfg.Keytab, err = fileName("keytab", cfg.Keytab); err != nil {
		return zk.Auth{}, err
	}
	if cfg.Cache, err = fileName("cache", cfg.Cache); err != nil {
		return zk.Auth{}, err
	}
	if cfg.Service == "" {
		cfg.Service = "zookeeper"
	}
	if cfg.Krb5Conf == "" {
		if cfg.Krb5Conf = os.Getenv("KRB5_CONFIG"); cfg.Krb5Conf == "" {
			cfg.Krb5Conf = "/etc/krb5.conf"
		}
	}
	krb, err := cfg.client()
	if err != nil {
		return zk.Auth{}, err
	}
	user := krb.Credentials.CName().PrincipalNameString() + "@" + krb.Credentials.Realm()
	krb.Destroy()
	return zk.SASLAuth("GSSAPI", user, cfg.start), nil
}

// fileName returns the name of a file without the type that Kerberos's own programs put before it: TYPE:name.
func fileName(what, name string) (string, error) {
	kind, file, ok := strings.Cut(name, ":")
	if !ok || len(kind) < 2 || strings.ContainsAny(kind, `/\.`) { // C: is a drive
		return name, nil
	}
	if kind == "FILE" || kind == "WRFILE" {
		return file, nil
	}
	return "", fmt.Errorf("gssapi: %s %s is of the type %s, and only files are supported: with kinit -c FILE:/PATH, name it FILE:/PATH", what, name, kind)
}

// client reads the files.
func (cfg *Config) client() (*client.Client, error) {
	if _, err := os.Stat(cfg.Krb5Conf); errors.Is(err, fs.ErrNotExist) && strings.ContainsRune(cfg.Krb5Conf, os.PathListSeparator) {
		return nil, fmt.Errorf("gssapi: %s is a list of files: set Krb5Conf to one file", cfg.Krb5Conf)
	}
	conf, err := config.Load(cfg.Krb5Conf)
	if err != nil {
		if conf == nil {
			return nil, fmt.Errorf("gssapi: %s: %w", cfg.Krb5Conf, err)
		}
		if _, unsupported := errors.AsType[config.UnsupportedDirective](err); !unsupported {
			return nil, fmt.Errorf("gssapi: %s: %w", cfg.Krb5Conf, err)
		}
	}
	name, realm, _ := strings.Cut(cfg.Principal, "@")
	if realm == "" {
		realm = conf.LibDefaults.DefaultRealm
	}
	if cfg.Cache != "" {
		cache, err := credentials.LoadCCache(cfg.Cache)
		if err != nil {
			return nil, fmt.Errorf("gssapi: cache %s: %w", cfg.Cache, err)
		}
		krb, err := client.NewFromCCache(cache, conf, client.DisablePAFXFAST(true))
		if err != nil {
			return nil, fmt.Errorf("gssapi: cache %s: %w", cfg.Cache, err)
		}
		if has := krb.Credentials.CName().PrincipalNameString() + "@" + krb.Credentials.Realm(); name != "" && has != name+"@"+realm {
			return nil, fmt.Errorf("gssapi: cache %s is of %s, and not of %s@%s", cfg.Cache, has, name, realm)
		}
		return krb, nil
	}
	if realm == "" {
		return nil, fmt.Errorf("gssapi: principal %s has no realm, and %s has no default_realm", cfg.Principal, cfg.Krb5Conf)
	}
	keys, err := keytab.Load(cfg.Keytab)
	if err != nil {
		return nil, fmt.Errorf("gssapi: keytab %s: %w", cfg.Keytab, err)
	}
	principal := types.NewPrincipalName(0, name)
	for _, e := range keys.Entries {
		if e.Principal.Realm == realm && types.NewPrincipalName(0, strings.Join(e.Principal.Components, "/")).Equal(principal) {
			return client.NewWithKeytab(name, realm, keys, conf, client.DisablePAFXFAST(true)), nil
		}
	}
	return nil, fmt.Errorf("gssapi: keytab %s has no key of %s@%s", cfg.Keytab, name, realm)
}

// start asks for a ticket for the server, and returns the steps of RFC 4752, section 3.1.
func (cfg *Config) start(ctx context.Context, server string) (zk.SASLStep, error) {
	host := cfg.ServerName
	if host == "" {
		var err error
		if host, _, err = net.SplitHostPort(server); err != nil {
			return nil, fmt.Errorf("%w: gssapi: server %s has no host name: set ServerName", zk.ErrAuthFailed, server)
		}
	}
	service := cfg.Service + "/" + strings.ToLower(host)
	type ticket struct {
		token []byte
		key   types.EncryptionKey
		err   error
	}
	// gokrb5 knows no contexts. It gives up after five seconds for each address of the centre, and then the goroutine
	// ends.
	got := make(chan ticket, 1)
	go func() {
		var t ticket
		t.token, t.key, t.err = cfg.ticket(service)
		got <- t
	}()
	select {
	case t := <-got:
		if t.err != nil {
			return nil, explain(service, t.err)
		}
		return steps(service, t.token, t.key), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ticket returns the first token for the server, and the key of its session.
func (cfg *Config) ticket(service string) ([]byte, types.EncryptionKey, error) {
	krb, err := cfg.client()
	if err != nil {
		return nil, types.EncryptionKey{}, err
	}
	defer krb.Destroy()
	t, key, err := krb.GetServiceTicket(service)
	if err != nil {
		return nil, key, err
	}
	if err := checkType(key.KeyType); err != nil {
		return nil, key, err
	}
	// No mutual authentication, as in ZooKeeper's own client. The token of the second step proves the server: only the
	// holder of the server's key can compute its checksum.
	token, err := spnego.NewKRB5TokenAPREQ(krb, t, key, []int{gssapi.ContextFlagInteg}, nil)
	if err != nil {
		return nil, key, err
	}
	b, err := token.Marshal()
	return b, key, err
}

// checkType refuses the types before AES: their tokens have another form (RFC 1964).
func checkType(encryption int32) error {
	switch encryption {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192:
		return nil
	}
	return fmt.Errorf("%w: the ticket is for encryption type %d, and only AES is supported: give the server's principal a key for AES", zk.ErrAuthFailed, encryption)
}

// refusals are the answers of a key distribution centre that another try does not change.
var refusals = []int32{
	errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN, errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN, errorcode.KDC_ERR_PREAUTH_FAILED,
	errorcode.KDC_ERR_CLIENT_REVOKED, errorcode.KDC_ERR_ETYPE_NOSUPP,
}

// explain says what a failed request for a ticket means.
func explain(service string, err error) error {
	err = fmt.Errorf("gssapi: ticket for %s: %w", service, err)
	if k, ok := errors.AsType[krberror.Krberror](err); ok && k.RootCause == krberror.DecryptingError {
		// Without preauthentication, the centre answers, and the keytab does not have the key of the answer.
		return fmt.Errorf("%w: %w", zk.ErrAuthFailed, err)
	}
	// gokrb5 passes the code on as text only.
	for _, code := range refusals {
		if strings.Contains(err.Error(), errorcode.Lookup(code)) {
			return fmt.Errorf("%w: %w", zk.ErrAuthFailed, err)
		}
	}
	return err
}

// steps are those of one authentication.
func steps(service string, token []byte, key types.EncryptionKey) zk.SASLStep {
	first := true
	return func(challenge []byte) ([]byte, bool, error) {
		if first {
			first = false
			return token, false, nil
		}
		response, err := choose(challenge, key)
		if err != nil {
			return nil, false, fmt.Errorf("gssapi: %s: %w", service, err)
		}
		return response, true, nil
	}
}

// noLayer is the security layer "none", in the first octet of the tokens in which client and server agree on it.
const noLayer = 1

// choose checks the token that the server has wrapped, and returns the wrapped answer: no security layer. Its authorization
// identity is empty, so it is that of the ticket.
func choose(challenge []byte, key types.EncryptionKey) ([]byte, error) {
	offer, err := unwrap(challenge, key)
	if err != nil {
		return nil, err
	}
	if len(offer) != 4 || offer[0]&noLayer == 0 {
		return nil, fmt.Errorf("%w: the server demands a security layer, which ZooKeeper does not have (offer %x)", zk.ErrAuthFailed, offer)
	}
	answer, err := gssapi.NewInitiatorWrapToken(binary.BigEndian.AppendUint32(nil, noLayer<<24), key)
	if err != nil {
		return nil, err
	}
	return answer.Marshal()
}

// unwrap checks a token of the server (RFC 4121, section 4.2.6.2) and returns its content. Its octets may be rotated.
func unwrap(token []byte, key types.EncryptionKey) ([]byte, error) {
	const sealed, subkey = 2, 4
	if len(token) >= gssapi.HdrLen {
		rotated := token[gssapi.HdrLen:]
		if n := int(binary.BigEndian.Uint16(token[6:8])); len(rotated) > 0 && n%len(rotated) != 0 {
			n %= len(rotated)
			token = append(append(append([]byte{}, token[:gssapi.HdrLen]...), rotated[n:]...), rotated[:n]...)
		}
	}
	var t gssapi.WrapToken
	if err := t.Unmarshal(token, true); err != nil {
		return nil, fmt.Errorf("token of the server: %w", err)
	}
	if t.Flags&(sealed|subkey) != 0 {
		return nil, fmt.Errorf("token of the server: it is sealed, or for another key (flags %#x)", t.Flags)
	}
	kind, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	if int(t.EC) != kind.GetHMACBitLength()/8 {
		return nil, fmt.Errorf("token of the server: a checksum of %d bytes", t.EC)
	}
	if ok, _ := t.Verify(key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok {
		return nil, fmt.Errorf("%w: the server does not have the key of its principal", zk.ErrAuthFailed) // err has the checksum
	}
	return t.Payload, nil
}
