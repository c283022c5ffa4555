package zkproto

import (
	"io/fs"
	"strconv"
)

// A Code is the error number of a reply (org.apache.zookeeper.KeeperException.Code).
// It is an error itself and answers errors.Is for fs.ErrNotExist, fs.ErrExist and
// fs.ErrPermission, as syscall.Errno does. CodeOK is never used as an error.
type Code int32

// The codes that are sent over the network. The codes that Apache's client makes up itself
// (ConnectionLoss and the like) are errors of package zk.
const (
	CodeOK                       Code = 0
	CodeSystemError              Code = -1
	CodeRuntimeInconsistency     Code = -2 // in a failed multi: an operation after the failed one
	CodeDataInconsistency        Code = -3
	CodeMarshallingError         Code = -5
	CodeUnimplemented            Code = -6
	CodeBadArguments             Code = -8
	CodeNewConfigNoQuorum        Code = -13
	CodeReconfigInProgress       Code = -14
	CodeAPIError                 Code = -100
	CodeNoNode                   Code = -101
	CodeNoAuth                   Code = -102
	CodeBadVersion               Code = -103
	CodeNoChildrenForEphemerals  Code = -108
	CodeNodeExists               Code = -110
	CodeNotEmpty                 Code = -111
	CodeSessionExpired           Code = -112
	CodeInvalidACL               Code = -114
	CodeAuthFailed               Code = -115
	CodeSessionMoved             Code = -118
	CodeNotReadOnly              Code = -119
	CodeEphemeralOnLocalSession  Code = -120
	CodeNoWatcher                Code = -121
	CodeReconfigDisabled         Code = -123
	CodeSessionClosedRequireSASL Code = -124
	CodeQuotaExceeded            Code = -125
	CodeThrottled                Code = -127
)

var codeText = map[Code]string{
	CodeOK:                       "ok",
	CodeSystemError:              "system error on the server",
	CodeRuntimeInconsistency:     "not tried: an earlier operation of the transaction failed",
	CodeDataInconsistency:        "data inconsistency on the server",
	CodeMarshallingError:         "the server could not decode the request",
	CodeUnimplemented:            "the server does not know this operation",
	CodeBadArguments:             "bad arguments",
	CodeNewConfigNoQuorum:        "no quorum of the new configuration is connected",
	CodeReconfigInProgress:       "another reconfiguration is in progress",
	CodeAPIError:                 "API error",
	CodeNoNode:                   "node does not exist",
	CodeNoAuth:                   "not permitted by the node's ACL",
	CodeBadVersion:               "version conflict",
	CodeNoChildrenForEphemerals:  "ephemeral nodes cannot have children",
	CodeNodeExists:               "node exists",
	CodeNotEmpty:                 "node has children",
	CodeSessionExpired:           "session expired",
	CodeInvalidACL:               "invalid ACL",
	CodeAuthFailed:               "authentication failed",
	CodeSessionMoved:             "session moved to another connection",
	CodeNotReadOnly:              "write sent to a read-only server",
	CodeEphemeralOnLocalSession:  "ephemeral node on a local session",
	CodeNoWatcher:                "no such watch",
	CodeReconfigDisabled:         "reconfiguration is disabled",
	CodeSessionClosedRequireSASL: "the server requires SASL authentication",
	CodeQuotaExceeded:            "quota exceeded",
	CodeThrottled:                "throttled by the server, not executed",
}

// Error returns the code in words, or by its number if it is unknown.
func (c Code) Error() string {
	if s, ok := codeText[c]; ok {
		return s
	}
	return "server error " + strconv.Itoa(int(c))
}

// Is lets errors.Is match the classes of package io/fs.
func (c Code) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return c == CodeNoNode
	case fs.ErrExist:
		return c == CodeNodeExists
	case fs.ErrPermission:
		return c == CodeNoAuth || c == CodeAuthFailed
	}
	return false
}
