package certmagicholdfast

import (
	"path"
	"strings"

	"github.com/caddyserver/certmagic"

	"holdfast/zk"
)

// clean returns the canonical form of a key: without slashes at its ends, and without the elements "", "." and
// "..". The root is "".
func clean(key string) string { return path.Clean("/" + key)[1:] }

// elements returns the elements of a clean key.
func elements(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, "/")
}

// unescape returns the text of a node's name. A name that zk.EscapeName cannot have made is its own text.
func unescape(name string) string {
	text, err := zk.UnescapeName(name)
	if err != nil {
		return name
	}
	return text
}

// guards reports whether certmagic changes key under the lock of this name. The names and keys are those of
// certmagic v0.25:
//
//	issue_cert_DOMAIN             certificates/ISSUER/DOMAIN/…
//	register_acme_account[_EMAIL] acme/CA/users/EMAIL/…
//	storage_clean                 last_clean.json
func guards(name, key string) bool {
	e := elements(key)
	if domain, ok := strings.CutPrefix(name, "issue_cert_"); ok {
		return len(e) >= 3 && e[0] == "certificates" && e[2] == certmagic.StorageKeys.Safe(domain)
	}
	if email, ok := strings.CutPrefix(name, "register_acme_account"); ok {
		email = strings.TrimPrefix(email, "_")
		if email == "" {
			email = "default"
		}
		return len(e) >= 4 && e[0] == "acme" && e[2] == "users" && e[3] == certmagic.StorageKeys.Safe(email)
	}
	return name == "storage_clean" && key == "last_clean.json"
}
