package zkproto

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

// A codec is any message of this package.
type codec interface {
	Append(b []byte) []byte
	Decode(r *Reader)
}

var sampleStat = Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: -6, Aversion: 7,
	EphemeralOwner: 0x1122334455667788, DataLength: 8, NumChildren: 9, Pzxid: 10}

var sampleACL = []ACL{{Perms: PermAll, Scheme: "world", ID: "anyone"}, {Perms: PermRead, Scheme: "digest", ID: "u:h"}}

// samples has every message, with every field set to a value that differs from its neighbours.
var samples = []codec{
	&ConnectRequest{ProtocolVersion: 0, LastZxidSeen: 7, Timeout: 15000, SessionID: -9, Passwd: []byte("0123456789abcdef")},
	&ConnectRequest{Passwd: nil, HasReadOnly: true, ReadOnly: true},
	&ConnectResponse{Timeout: 15000, SessionID: 0x7f00000000000001, Passwd: []byte{}},
	&ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: true},
	&RequestHeader{Xid: XidPing, Op: OpPing},
	&ReplyHeader{Xid: 3, Zxid: 1 << 40, Err: CodeNoNode},
	&CreateRequest{Path: "/a", Data: []byte("data"), ACL: sampleACL, Flags: FlagEphemeralSequential},
	&CreateRequest{Path: "", Data: nil, ACL: nil},
	&CreateResponse{Path: "/a0000000001"},
	&Create2Response{Path: "/a", Stat: sampleStat},
	&DeleteRequest{Path: "/a", Version: -1},
	&CheckVersionRequest{Path: "/ü", Version: 4},
	&SetDataRequest{Path: "/a", Data: []byte{}, Version: 2},
	&ReadRequest{Path: "/a", Watch: true},
	&StatResponse{Stat: sampleStat},
	&GetDataResponse{Data: []byte("x"), Stat: sampleStat},
	&GetDataResponse{Data: nil, Stat: sampleStat},
	&ChildrenResponse{Children: []string{"a", "", "ü"}},
	&Children2Response{Children: []string{"a"}, Stat: sampleStat},
	&SyncRequest{Path: "/a"},
	&SetWatchesRequest{RelativeZxid: 5, Data: []string{"/d"}, Exist: []string{"/e", "/f"}, Child: []string{"/c"}},
	&RemoveWatchesRequest{Path: "/a", Kind: WatchAny},
	&WatcherEvent{Type: EventNodeDeleted, State: StateSyncConnected, Path: "/a"},
	&MultiRequest{},
	&MultiRequest{Ops: []MultiOp{
		{Op: OpCreate, Path: "/a", Data: []byte("x"), ACL: sampleACL, Flags: 1},
		{Op: OpCreate2, Path: "/b", ACL: sampleACL}, {Op: OpCreateContainer, Path: "/c", ACL: sampleACL, Flags: 4},
		{Op: OpDelete, Path: "/d", Version: 1}, {Op: OpSetData, Path: "/e", Data: []byte{}, Version: 2}, {Op: OpCheck, Path: "/f", Version: 3},
	}},
	&MultiResponse{},
	&MultiResponse{Results: []MultiResult{
		{Op: OpCreate, Path: "/a"}, {Op: OpCreate2, Path: "/b", Stat: sampleStat}, {Op: OpCreateContainer, Path: "/c", Stat: sampleStat},
		{Op: OpDelete}, {Op: OpSetData, Stat: sampleStat}, {Op: OpCheck},
	}},
	&MultiResponse{Results: []MultiResult{{Op: OpError}, {Op: OpError, Err: CodeBadVersion}, {Op: OpError, Err: CodeRuntimeInconsistency}}},
	&AuthRequest{Scheme: "digest", Auth: []byte("user:password")},
	&SASLToken{Token: []byte{}},
	&SASLToken{},
	// The corpora depend on the order: append new messages.
	&CreateTTLRequest{Path: "/a", Data: []byte("data"), ACL: sampleACL, Flags: FlagTTL, TTL: MaxTTL},
	&MultiRequest{Ops: []MultiOp{{Op: OpCreateTTL, Path: "/a", Data: []byte("x"), ACL: sampleACL, Flags: FlagSequentialTTL, TTL: 7}}},
	&MultiResponse{Results: []MultiResult{{Op: OpCreateTTL, Path: "/a0000000003", Stat: sampleStat}}},
	&GetACLRequest{Path: "/a"},
	&GetACLResponse{ACL: sampleACL, Stat: sampleStat},
	&SetACLRequest{Path: "/a", ACL: sampleACL, Version: 3},
	&SetWatches2Request{SetWatchesRequest: SetWatchesRequest{RelativeZxid: 5, Data: []string{"/d"}, Exist: []string{"/e"}, Child: []string{"/c"}},
		Persistent: []string{"/p", "/q"}, PersistentRecursive: []string{"/"}},
	&AddWatchRequest{Path: "/a", Mode: ModePersistentRecursive},
	&ErrorResponse{Err: CodeBadArguments},
	&MultiReadRequest{},
	&MultiReadRequest{Ops: []MultiReadOp{{Op: OpGetData, Path: "/a"}, {Op: OpGetChildren, Path: "/b", Watch: true}}},
	&MultiReadResponse{Results: []MultiReadResult{
		{Op: OpGetData, Data: []byte("x"), Stat: sampleStat}, {Op: OpError, Err: CodeNoNode}, {Op: OpGetChildren, Children: []string{"a", "b"}}, {Op: OpGetData},
	}},
	&GetEphemeralsRequest{Prefix: "/a"},
	&GetEphemeralsResponse{Paths: []string{"/a/b", "/a/c"}},
	&GetAllChildrenNumberRequest{Path: "/a"},
	&GetAllChildrenNumberResponse{Total: 9},
	&WhoAmIResponse{},
	&WhoAmIResponse{Infos: []ClientInfo{{Scheme: "ip", User: "127.0.0.1"}, {Scheme: "digest", User: "u"}}},
	&ReconfigRequest{Joining: "server.4=h:1:2;3", Leaving: "1,2", Version: 1 << 33},
	&ReconfigRequest{NewMembers: "server.4=h:1:2;3", Version: -1},
	&sampleStat,
}

func blank(m codec) codec { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(codec) }

func TestEveryMessageComesBack(t *testing.T) {
	for _, m := range samples {
		b := m.Append([]byte("prefix"))
		if !bytes.HasPrefix(b, []byte("prefix")) {
			t.Fatalf("%T: Append does not append", m)
		}
		got := blank(m)
		r := NewReader(b[len("prefix"):])
		got.Decode(r)
		if err := r.Complete(); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: got %+v, %v; want %+v", m, got, err, m)
		}
	}
}

func TestTruncatedMessagesAreErrors(t *testing.T) {
	for _, m := range samples {
		b := m.Append(nil)
		for n := range b {
			switch m := m.(type) { // without its last byte it is a message of older clients
			case *ConnectRequest:
				if m.HasReadOnly && n == len(b)-1 {
					continue
				}
			case *ConnectResponse:
				if m.HasReadOnly && n == len(b)-1 {
					continue
				}
			}
			r := NewReader(b[:n])
			blank(m).Decode(r)
			if err := r.Complete(); !errors.Is(err, ErrMalformed) {
				t.Errorf("%T cut to %d of %d bytes: %v; want ErrMalformed", m, n, len(b), err)
			}
		}
	}
}

// The bytes are from zookeeper.jute, written by hand. So the test finds a mistake that Append and Decode
// share.
func TestWireForm(t *testing.T) {
	stat := "0000000000000001" + "0000000000000002" + "0000000000000003" + "0000000000000004" +
		"00000005" + "fffffffa" + "00000007" + "1122334455667788" + "00000008" + "00000009" + "000000000000000a"
	for _, tt := range []struct {
		m    codec
		want string
	}{
		{&ConnectRequest{LastZxidSeen: 7, Timeout: 15000, SessionID: 1, Passwd: make([]byte, 16), HasReadOnly: true},
			"00000000" + "0000000000000007" + "00003a98" + "0000000000000001" + "00000010" + strings.Repeat("00", 16) + "00"},
		{&RequestHeader{Xid: -2, Op: OpPing}, "fffffffe" + "0000000b"},
		{&ReplyHeader{Xid: 1, Zxid: 2, Err: CodeNoNode}, "00000001" + "0000000000000002" + "ffffff9b"},
		{&CreateRequest{Path: "/a", Data: nil, ACL: []ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}, Flags: 3},
			"00000002" + "2f61" + "ffffffff" + "00000001" + "0000001f" + "00000005" + "776f726c64" + "00000006" + "616e796f6e65" + "00000003"},
		{&StatResponse{Stat: sampleStat}, stat},
		{&ReadRequest{Path: "/a", Watch: true}, "00000002" + "2f61" + "01"},
		{&WatcherEvent{Type: 2, State: 3, Path: "/"}, "00000002" + "00000003" + "00000001" + "2f"},
		{&MultiRequest{Ops: []MultiOp{{Op: OpCheck, Path: "/", Version: -1}}},
			"0000000d" + "00" + "ffffffff" + "00000001" + "2f" + "ffffffff" + "ffffffff" + "01" + "ffffffff"},
		{&MultiResponse{Results: []MultiResult{{Op: OpError, Err: CodeNoNode}}},
			"ffffffff" + "00" + "ffffff9b" + "ffffff9b" + "ffffffff" + "01" + "ffffffff"},
		{&SetWatchesRequest{RelativeZxid: 1, Data: []string{"/"}}, "0000000000000001" + "00000001" + "00000001" + "2f" + "00000000" + "00000000"},
		{&CreateTTLRequest{Path: "/a", Flags: 5, TTL: 7}, "00000002" + "2f61" + "ffffffff" + "00000000" + "00000005" + "0000000000000007"},
		{&SetACLRequest{Path: "/", ACL: []ACL{{Perms: 1, Scheme: "s", ID: "i"}}, Version: 2},
			"00000001" + "2f" + "00000001" + "00000001" + "00000001" + "73" + "00000001" + "69" + "00000002"},
		{&GetACLResponse{Stat: sampleStat}, "00000000" + stat},
		{&SetWatches2Request{Persistent: []string{"/"}}, "0000000000000000" + "00000000" + "00000000" + "00000000" + "00000001" + "00000001" + "2f" + "00000000"},
		{&AddWatchRequest{Path: "/", Mode: 1}, "00000001" + "2f" + "00000001"},
		{&MultiReadRequest{Ops: []MultiReadOp{{Op: OpGetChildren, Path: "/"}}},
			"00000008" + "00" + "ffffffff" + "00000001" + "2f" + "00" + "ffffffff" + "01" + "ffffffff"},
		{&MultiReadResponse{Results: []MultiReadResult{{Op: OpError, Err: CodeNoNode}, {Op: OpGetChildren}}},
			"ffffffff" + "00" + "ffffff9b" + "ffffff9b" + "00000008" + "00" + "00000000" + "00000000" + "ffffffff" + "01" + "ffffffff"},
		{&WhoAmIResponse{Infos: []ClientInfo{{Scheme: "ip", User: "u"}}}, "00000001" + "00000002" + "6970" + "00000001" + "75"},
		{&ReconfigRequest{Leaving: "1", Version: -1}, "ffffffff" + "00000001" + "31" + "ffffffff" + "ffffffffffffffff"},
	} {
		if got := hex.EncodeToString(tt.m.Append(nil)); got != tt.want {
			t.Errorf("%T:\ngot  %s\nwant %s", tt.m, got, tt.want)
		}
	}
}

func TestReaderKeepsItsFirstError(t *testing.T) {
	r := NewReader([]byte{0, 0, 0, 9, 'x'})
	if got := r.String(); got != "" || !strings.Contains(r.Err().Error(), "9 bytes announced, 1 are there") {
		t.Errorf("got %q, %v", got, r.Err())
	}
	first := r.Err()
	if r.Int64() != 0 || r.Bool() || r.Strings() != nil || r.Bytes() != nil || r.Err() != first {
		t.Errorf("after the first error: %v; want %v and zeros", r.Err(), first)
	}
}

func TestReaderBoundsCounts(t *testing.T) {
	for _, tt := range []struct {
		bytes string
		ok    bool
	}{
		{"\xff\xff\xff\xff", true}, // null
		{"\x00\x00\x00\x00", true},
		{"\xff\xff\xff\xfe", false},
		{"\x7f\xff\xff\xff", false},
		{"\x00\x00\x00\x02\x00\x00\x00\x00", false},
		{"\x00\x00\x00\x01\x00\x00\x00\x00", true},
	} {
		r := NewReader([]byte(tt.bytes))
		r.Strings()
		if (r.Err() == nil) != tt.ok {
			t.Errorf("%x: %v", tt.bytes, r.Err())
		}
	}
}

func TestReadFrame(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     string
		err      error
	}{
		{"whole", "\x00\x00\x00\x02hi", "hi", nil},
		{"empty", "\x00\x00\x00\x00", "", nil},
		{"at the limit", "\x00\x00\x00\x08abcdefgh", "abcdefgh", nil},
		{"above the limit", "\x00\x00\x00\x09abcdefghi", "", ErrMalformed},
		{"2 GB", "\x7f\xff\xff\xff", "", ErrMalformed},
		{"negative", "\xff\xff\xff\xff", "", ErrMalformed},
		{"nothing", "", "", io.EOF},
		{"half a length", "\x00\x00", "", io.ErrUnexpectedEOF},
		{"no body", "\x00\x00\x00\x02", "", io.ErrUnexpectedEOF},
		{"half a body", "\x00\x00\x00\x02h", "", io.ErrUnexpectedEOF},
	} {
		for _, buf := range [][]byte{nil, make([]byte, 0, 4), make([]byte, 64)} {
			got, err := ReadFrame(strings.NewReader(tt.in), buf, 8)
			if string(got) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s: got %q, %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
			}
		}
	}
}

func TestCodesAreErrorsOfTheirClass(t *testing.T) {
	for code, class := range map[Code]error{CodeNoNode: fs.ErrNotExist, CodeNodeExists: fs.ErrExist, CodeNoAuth: fs.ErrPermission, CodeAuthFailed: fs.ErrPermission} {
		if !errors.Is(code, class) {
			t.Errorf("%v is not %v", code, class)
		}
	}
	if errors.Is(CodeBadVersion, fs.ErrNotExist) {
		t.Error("a version conflict is fs.ErrNotExist")
	}
	if got := Code(-4711).Error(); got != "server error -4711" {
		t.Errorf("an unknown code says %q", got)
	}
}

func TestValidatePath(t *testing.T) {
	for _, path := range []string{"/", "/a", "/a/b", "/a b", "/ü", "/...", "/.a", "/a.", "/zookeeper/quota", "/\u00a0", "/\uffef"} {
		if err := ValidatePath(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{"", "a", "a/b", "/a/", "//", "/a//b", "/.", "/..", "/a/./b", "/a/..", "/\x00", "/a\x1f", "/\x7f", "/\u009f",
		"/\ue000", "/\uf8ff", "/\ufff0", "/\ufffd", "/\U0001f512", "/\xff", "/a\xc3"} {
		if err := ValidatePath(path); !errors.Is(err, ErrInvalidPath) {
			t.Errorf("%q: %v; want ErrInvalidPath", path, err)
		}
	}
}

func TestReadFrameOfLargeFrames(t *testing.T) {
	for _, n := range []int{64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000, MaxFrame} {
		body := make([]byte, n)
		for i := range body {
			body[i] = byte(i * 7 / 3)
		}
		in := EndFrame(append(BeginFrame(nil), body...), 0)
		for _, room := range []int{0, 100, 70_000, MaxFrame} {
			got, err := ReadFrame(bytes.NewReader(in), make([]byte, room), MaxFrame)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes into room for %d: got %d bytes, %v", n, room, len(got), err)
			}
			if _, err := ReadFrame(bytes.NewReader(in[:len(in)-1]), make([]byte, room), MaxFrame); err != io.ErrUnexpectedEOF {
				t.Errorf("%d bytes into room for %d, the last missing: %v", n, room, err)
			}
		}
	}
}
