package gssapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"

	"holdfast/zk"
)

var key = types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96, KeyValue: bytes.Repeat([]byte{7}, 32)}

// offer returns a token of a server.
func offer(t *testing.T, flags byte, payload []byte, key types.EncryptionKey) []byte {
	t.Helper()
	w := gssapi.WrapToken{Flags: flags, EC: 12, Payload: payload}
	if err := w.SetCheckSum(key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
		t.Fatal(err)
	}
	b, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rotate(token []byte, n int) []byte {
	out := bytes.Clone(token)
	body := token[16:]
	copy(out[16:], append(bytes.Clone(body[len(body)-n:]), body[:len(body)-n]...))
	binary.BigEndian.PutUint16(out[6:8], uint16(n))
	return out
}

func TestOnlyTokensOfTheServerAreAnswered(t *testing.T) {
	const acceptor = 1
	good := offer(t, acceptor, []byte{1, 0, 16, 0}, key)
	changed := bytes.Clone(good)
	changed[17] ^= 1
	other := types.EncryptionKey{KeyType: key.KeyType, KeyValue: bytes.Repeat([]byte{8}, 32)}
	for _, tt := range []struct {
		name  string
		token []byte
		want  string // in the error; "" is none
		final bool
	}{
		{"none or integrity or confidentiality", offer(t, acceptor, []byte{7, 0, 16, 0}, key), "", false},
		{"none", good, "", false},
		{"rotated", rotate(good, 12), "", false},
		{"rotated by all", rotate(good, 16), "", false},
		{"changed on the way", changed, "does not have the key", true},
		{"of another key", offer(t, acceptor, []byte{1, 0, 0, 0}, other), "does not have the key", true},
		{"a security layer is demanded", offer(t, acceptor, []byte{6, 0, 0, 0}, key), "demands a security layer", true},
		{"an offer of another length", offer(t, acceptor, []byte{1, 0, 0, 0, 0}, key), "demands a security layer", true},
		{"the client's own token", offer(t, 0, []byte{1, 0, 0, 0}, key), "acceptor flag", false},
		{"sealed", offer(t, acceptor|2, []byte{1, 0, 0, 0}, key), "sealed", false},
		{"for a subkey", offer(t, acceptor|4, []byte{1, 0, 0, 0}, key), "another key", false},
		{"without a checksum", append(append([]byte{5, 4, 1, 0xff, 0, 0, 0, 0}, make([]byte, 8)...), 1, 0, 0, 0), "checksum of 0 bytes", false},
		{"empty", nil, "shorter than header", false},
		{"cut", good[:15], "shorter than header", false},
	} {
		answer, err := choose(tt.token, key)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)), errors.Is(err, zk.ErrAuthFailed) != tt.final:
			t.Errorf("%s: %v; want %q, final: %v", tt.name, err, tt.want, tt.final)
		case err == nil:
			var w gssapi.WrapToken
			if err := w.Unmarshal(answer, false); err != nil {
				t.Fatal(err)
			}
			if ok, err := w.Verify(key, keyusage.GSSAPI_INITIATOR_SEAL); !ok || !bytes.Equal(w.Payload, []byte{1, 0, 0, 0}) {
				t.Errorf("%s: answer %x, %v", tt.name, w.Payload, err)
			}
		}
	}
}

// The server's bytes are untrusted.
func FuzzChoose(f *testing.F) {
	f.Add([]byte{5, 4, 1, 0xff, 0, 12, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, token []byte) {
		if answer, err := choose(token, key); err == nil && len(answer) == 0 {
			t.Error("no answer")
		}
	})
}

func TestServersNeedAName(t *testing.T) {
	if _, err := (&Config{}).start(context.Background(), "/run/holdfast.sock"); !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "ServerName") {
		t.Error(err)
	}
}

func TestOnlyAESIsSpoken(t *testing.T) {
	for encryption, ok := range map[int32]bool{
		etypeID.AES128_CTS_HMAC_SHA1_96: true, etypeID.AES256_CTS_HMAC_SHA1_96: true,
		etypeID.AES128_CTS_HMAC_SHA256_128: true, etypeID.AES256_CTS_HMAC_SHA384_192: true,
		etypeID.RC4_HMAC: false, etypeID.DES3_CBC_SHA1_KD: false,
	} {
		if err := checkType(encryption); (err == nil) != ok || !ok && !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("type %d: %v", encryption, err)
		}
	}
}
