package login

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"strings"

	"holdfast/zkserver/internal/tree"
)

// OfCertificate returns a client's identity from its certificate. It takes the verified
// chains of the TLS connection: a certificate that was not verified gives no identity.
func OfCertificate(chains [][]*x509.Certificate) []tree.Identity {
	if len(chains) == 0 {
		return nil
	}
	name := distinguishedName(chains[0][0].RawSubject)
	if name == "" {
		return nil
	}
	return []tree.Identity{{Scheme: "x509", ID: name}}
}

// attributeNames has the attributes that Java writes as words (X500Principal.getName). ACLs hold
// names as text. So our text must equal that of Apache's server letter by letter.
// pkix.Name.String knows other words.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// distinguishedName formats a name by RFC 2253, the most specific part first.
func distinguishedName(der []byte) string {
	var sequence pkix.RDNSequence
	if rest, err := asn1.Unmarshal(der, &sequence); err != nil || len(rest) > 0 {
		return ""
	}
	parts := make([]string, 0, len(sequence))
	for i := len(sequence) - 1; i >= 0; i-- {
		var values []string
		for _, a := range sequence[i] {
			text, isText := a.Value.(string)
			word, known := attributeNames[a.Type.String()]
			if known && isText {
				values = append(values, word+"="+escapeName(text))
				continue
			}
			value, err := asn1.Marshal(a.Value)
			if err != nil {
				return ""
			}
			values = append(values, fmt.Sprintf("%v=#%s", a.Type, hex.EncodeToString(value)))
		}
		parts = append(parts, strings.Join(values, "+"))
	}
	return strings.Join(parts, ",")
}

func escapeName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		edge := i == 0 || i == len(s)-1
		if strings.IndexByte(`,+"\<>;`, s[i]) >= 0 || s[i] == ' ' && edge || s[i] == '#' && i == 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
