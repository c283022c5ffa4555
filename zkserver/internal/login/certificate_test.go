package login

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"testing"

	"holdfast/zkserver/internal/tree"
)

func TestOfCertificate(t *testing.T) {
	named := func(name string) *x509.Certificate {
		var subject pkix.RDNSequence
		if name != "" {
			subject = pkix.Name{CommonName: name}.ToRDNSequence()
		}
		der, err := asn1.Marshal(subject)
		if err != nil {
			t.Fatal(err)
		}
		return &x509.Certificate{RawSubject: der}
	}
	for _, tt := range []struct {
		name   string
		chains [][]*x509.Certificate
		want   []tree.Identity
	}{
		{"not verified", nil, nil},
		{"verified", [][]*x509.Certificate{{named("alice"), named("authority")}, {named("alice"), named("other")}}, []tree.Identity{{Scheme: "x509", ID: "CN=alice"}}},
		{"no subject", [][]*x509.Certificate{{named("")}}, nil},
	} {
		if got := OfCertificate(tt.chains); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
}

func TestNamesAreWrittenAsJavaDoes(t *testing.T) {
	oid := func(numbers ...int) asn1.ObjectIdentifier { return numbers }
	one := func(id asn1.ObjectIdentifier, value any) []pkix.AttributeTypeAndValue {
		return []pkix.AttributeTypeAndValue{{Type: id, Value: value}}
	}
	for _, tt := range []struct {
		name pkix.RDNSequence
		want string
	}{
		{nil, ""},
		{pkix.RDNSequence{one(oid(2, 5, 4, 6), "AT"), one(oid(2, 5, 4, 3), "a b")}, "CN=a b,C=AT"},
		{pkix.RDNSequence{one(oid(0, 9, 2342, 19200300, 100, 1, 25), "example"), one(oid(0, 9, 2342, 19200300, 100, 1, 1), "u")}, "UID=u,DC=example"},
		{pkix.RDNSequence{one(oid(2, 5, 4, 3), ` #x,y+z"\<>; `)}, `CN=\ #x\,y\+z\"\\\<\>\;\ `},
		{pkix.RDNSequence{one(oid(2, 5, 4, 3), "#x")}, `CN=\#x`},
		{pkix.RDNSequence{one(oid(2, 5, 4, 5), "12")}, "2.5.4.5=#13023132"},
	} {
		der, err := asn1.Marshal(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := distinguishedName(der); got != tt.want {
			t.Errorf("got %s; want %s", got, tt.want)
		}
	}
	if got := distinguishedName([]byte{0x30, 5}); got != "" {
		t.Errorf("an invalid certificate gives %s", got)
	}
}
