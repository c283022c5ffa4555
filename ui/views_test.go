package ui

import (
	"context"
	"net/http/httptest"
	"testing"

	"holdfast/zktest"
)

// A tab that is closed while it reads the audit does not make others see that no server answers.
func TestAClosedTabIsNoSilentServer(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	u, err := New(Config{Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.audit(httptest.NewRequestWithContext(ctx, "GET", "/audit", nil), view{}, &frame{})
	var f frame
	u.audit(httptest.NewRequestWithContext(t.Context(), "GET", "/audit", nil), view{}, &f)
	if why := f.Body.(auditBody).Why; why != "" {
		t.Error(why)
	}
}
