package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
)

// expiresSoon is the time before the end of a certificate from which doctor warns. For certificates that
// last less than four times as long, it is the last quarter.
const expiresSoon = 14 * 24 * time.Hour

// examineTLS starts TLS on nc and examines the certificate. If it cannot be trusted, examineTLS closes nc,
// sends nothing, and returns nil.
func (d *examiner) examineTLS(ctx context.Context, e *examined, nc net.Conn) net.Conn {
	cfg := d.target.ZK.TLS.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = e.host
	}
	var chain []*x509.Certificate
	var distrust error
	// The usual verification hides the certificate that it refuses. This one does the same work.
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		chain = state.PeerCertificates
		e.answered = true
		if len(chain) == 0 {
			return errors.New("no certificate")
		}
		opts := x509.VerifyOptions{Roots: cfg.RootCAs, DNSName: cfg.ServerName, Intermediates: x509.NewCertPool()}
		for _, c := range chain[1:] {
			opts.Intermediates.AddCert(c)
		}
		_, distrust = chain[0].Verify(opts)
		return distrust
	}
	began := time.Now()
	c := tls.Client(nc, cfg)
	err := c.HandshakeContext(ctx)
	switch {
	case distrust != nil:
		found, hint := explainDistrust(distrust, chain[0], cfg.ServerName)
		e.problem("certificate", hint, "%s: %s", e.name, term.Cut(found, 250))
	case err != nil:
		hint := "see the log of the server"
		if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || conn.TimedOut(err) || strings.Contains(err.Error(), "EOF") {
			hint = "the port may not speak TLS: give zk:// or the port for TLS"
		} else if conn.CertificateHint(err) != "" {
			e.answered, hint = true, conn.CertificateHint(err)
		}
		e.problem("certificate", hint, "%s: no TLS: %s", e.name, cause(err, time.Since(began)))
	default:
		e.judgeExpiry(chain, time.Now())
		if own := cfg.Certificates; len(own) > 0 && own[0].Leaf != nil {
			judgeOwn(&e.findings, own[0].Leaf, time.Now())
		}
		return c
	}
	nc.Close()
	return nil
}

// explainDistrust returns why a certificate is refused, and what to do.
func explainDistrust(err error, leaf *x509.Certificate, host string) (found, hint string) {
	who := certificateName(leaf)
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		c := invalid.Cert
		if time.Now().Before(c.NotBefore) {
			return fmt.Sprintf("the certificate of %s is valid from %s on", certificateName(c), c.NotBefore.UTC().Format(time.RFC3339)), "compare the clocks of both machines"
		}
		return fmt.Sprintf("the certificate of %s expired at %s", certificateName(c), c.NotAfter.UTC().Format(time.RFC3339)), "renew it on the server; holdfast serve reads a new one by itself"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate is for %s, not for %s", names(leaf), host), "give the server by a name in its certificate, or the name with --tls-server-name"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Sprintf("no trusted authority has issued the certificate of %s; its issuer is %s", who, orNobody(leaf.Issuer.String())), "give the certificate of that authority with --tls-ca"
	}
	return fmt.Sprintf("the certificate of %s is refused: %v", who, err), "see docs/howto/tls.md"
}

func certificateName(c *x509.Certificate) string { return orNobody(c.Subject.String()) }

func orNobody(s string) string {
	if s == "" {
		return "an unnamed subject"
	}
	return s
}

// names returns the host names and addresses of a certificate.
func names(c *x509.Certificate) string {
	all := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return "no host"
	}
	return strings.Join(all, ", ")
}

// judgeExpiry reports the first end among the certificates that the server sent.
func (e *examined) judgeExpiry(chain []*x509.Certificate, now time.Time) {
	first := chain[0]
	for _, c := range chain[1:] {
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	judge(&e.findings, first, now, fmt.Sprintf("%s: the certificate of %s, issued by %s", e.name, certificateName(first), orNobody(first.Issuer.String())),
		"renew it on the server; holdfast serve reads a new one by itself")
}

// judgeOwn reports the end of the certificate of --tls-cert.
func judgeOwn(f *findings, own *x509.Certificate, now time.Time) {
	judge(f, own, now, "your certificate, of "+certificateName(own)+",", "renew the file of --tls-cert")
}

func judge(f *findings, c *x509.Certificate, now time.Time, what, hint string) {
	left := c.NotAfter.Sub(now)
	found := fmt.Sprintf("%s ends in %s, at %s", term.Cut(what, 250), duration.Age(left), c.NotAfter.UTC().Format(time.RFC3339))
	switch {
	case left <= 0:
		f.problem("certificate", hint, "%s expired at %s", term.Cut(what, 250), c.NotAfter.UTC().Format(time.RFC3339))
	case left < min(expiresSoon, c.NotAfter.Sub(c.NotBefore)/4):
		f.warning("certificate", hint, "%s", found)
	default:
		f.ok("certificate", "%s", found)
	}
}
