package zkproto

import (
	"errors"
	"reflect"
	"testing"
)

// The example in section 4 of RFC 2831, and the answer of Java's client (Sasl.createSaslClient)
// to the same challenge with an authorization id.
func TestDigestMD5IsThatOfTheStandard(t *testing.T) {
	d := DigestMD5{
		Secret: DigestMD5Secret("chris", "elwood.innosoft.com", "secret"),
		Nonce:  "OA6MG9tEQGm2hh", Cnonce: "OA6MHXh6VqTrRk", URI: "imap/elwood.innosoft.com",
	}
	if got, want := d.Response(), "d388dad90d4bbd760a152321f2143af7"; got != want {
		t.Errorf("response %s; want %s", got, want)
	}
	if got, want := d.Proof(), "ea40f60335c427b5527b84dbabcdfffd"; got != want {
		t.Errorf("proof %s; want %s", got, want)
	}
	d.AuthzID, d.Cnonce = "chris", "ugX4dmYfYCf4M2Hdiq8x24N3G/td++d4KN3ce2+K"
	if got, want := d.Response(), "b6436d88c762d7dcb50d69072669b786"; got != want {
		t.Errorf("response with an authorization id %s; want %s", got, want)
	}
}

func TestDirectives(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want map[string][]string // nil: malformed
	}{
		{``, map[string][]string{}},
		{` , A = b ,a="c\"d\\,e=f",`, map[string][]string{"a": {"b", `c"d\,e=f`}}},
		{`a=`, map[string][]string{"a": {""}}},
		{`a`, nil}, {`="b"`, nil}, {`a="b`, nil}, {`a="b\`, nil}, {`a="b"c=d`, nil}, {`a b=c`, nil},
	} {
		got, err := ParseDirectives(tt.in)
		if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.want != nil) || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v, %v; want %v", tt.in, got, err, tt.want)
		}
	}
	const awkward = `b"o,b\=`
	if got, err := ParseDirectives("a=" + QuoteDirective(awkward)); err != nil || got["a"][0] != awkward {
		t.Errorf("quoted and read: %q, %v", got, err)
	}
}
