package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"holdfast/ui"
	"holdfast/zktest"
)

// requireLogin stands for what a program does to know its users.
func requireLogin(next http.Handler) http.Handler { return next }

func Example() {
	server := zktest.NewServer()
	defer server.Close()
	client := server.Client()

	mux := http.NewServeMux()
	page, err := ui.New(ui.Config{Client: client, Prefix: "/holdfast/locks/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()
	mux.Handle("/locks/", http.StripPrefix("/locks", requireLogin(page)))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/locks/health", nil))
	fmt.Println(answer.Code)
	// Output: 200
}
