package zkserver

import (
	"fmt"
	"slices"
	"strings"
)

// version is what srvr reports: the Apache ZooKeeper release whose behaviour this
// server has, in the form that other clients' parsers require.
const version = "3.8.4-holdfast, built on 02/12/2024 22:16 GMT"

// words has the four-letter words that can be allowed, and the functions that answer them.
var words = map[string]func(s *Server, w *wordAnswer, r *request){
	"ruok": func(_ *Server, w *wordAnswer, _ *request) { w.print("imok") },
	"isro": func(_ *Server, w *wordAnswer, _ *request) { w.print("rw") },
	// kazoo reads the version from it. Apache's server also describes its machine; this server
	// keeps that private.
	"envi": func(_ *Server, w *wordAnswer, _ *request) { w.print("Environment:\nzookeeper.version=", version, "\n") },
	"srvr": func(s *Server, w *wordAnswer, _ *request) { s.wordSrvr(w) },
	"stat": func(s *Server, w *wordAnswer, r *request) { s.wordStat(w, r.conn) },
	"cons": (*Server).wordCons,
	"mntr": (*Server).wordMntr,
	"conf": (*Server).wordConf,
	"dirs": func(_ *Server, w *wordAnswer, r *request) {
		w.print("datadir_size: ", r.disk, "\nlogdir_size: ", r.disk, "\n")
	},
	"dump": (*Server).wordDump,
	"wchs": func(s *Server, w *wordAnswer, _ *request) { s.wordWchs(w) },
	"wchc": func(s *Server, w *wordAnswer, _ *request) { s.wordWchc(w) },
	"wchp": func(s *Server, w *wordAnswer, _ *request) { s.wordWchp(w) },
	"srst": func(s *Server, w *wordAnswer, _ *request) { s.wordSrst(w) },
	"crst": func(s *Server, w *wordAnswer, _ *request) { s.wordCrst(w) },
	// This server has no trace mask and no history of digests. It knows these words, so that
	// a client that sends one gets an answer.
	"gtmk": wordAbsent,
	"stmk": wordAbsent,
	"hash": wordAbsent,
}

func wordAbsent(_ *Server, w *wordAnswer, r *request) {
	w.print(r.word, " is not executed because this server does not have what it is about.\n")
}

var defaultWords = []string{"ruok", "srvr", "isro", "envi"}

// allowedWords returns Config.FourLetterWords as a set. As in Apache's server, srvr is always in
// it: zkServer.sh status and clients depend on it.
func allowedWords(list []string) (map[string]bool, error) {
	if list == nil {
		list = defaultWords
	}
	allowed := map[string]bool{"srvr": true}
	for _, word := range list {
		word = strings.TrimSpace(word)
		if word == "*" {
			for known := range words {
				allowed[known] = true
			}
			continue
		}
		if words[word] == nil {
			return nil, fmt.Errorf("zkserver: unknown four-letter word %q; known are %s, and * for all of them", word, strings.Join(wordNames(), " "))
		}
		allowed[word] = true
	}
	return allowed, nil
}

func wordNames() []string {
	var names []string
	for name := range words {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func isWord(w string) bool { return words[w] != nil }

// prepareWord measures what the answer to a word needs. The reader calls it, because it may wait for
// a disk, and the owner must not.
func (c *conn) prepareWord(r *request) {
	s := c.server
	if !s.words[r.word] {
		return
	}
	switch r.word {
	case "conf", "dirs":
		r.disk = s.footprint.ofDisk(func() int64 { return dirSize(s.cfg.Dir) })
	case "mntr":
		r.files, r.maxFiles = s.footprint.ofFiles(openFiles)
	}
}

// answerWord stages the answer to a four-letter word, without a frame.
func (s *Server) answerWord(c *conn, r *request) {
	w := &wordAnswer{b: s.stage(c)}
	if s.words[r.word] {
		words[r.word](s, w, r)
	} else {
		w.print(r.word, " is not executed because it is not in the whitelist.\n")
	}
	c.owned.staged = w.b
	s.answered(c)
	s.finish(c)
}
