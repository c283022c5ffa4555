"""kazoo with SASL DIGEST-MD5.

Usage: kazoo_sasl.py HOST:PORT PATH PASSWORD-FILE, where bob has the password.
One line "ok STEP" per step; a failed check ends it with an exception.
"""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NoAuthError
from kazoo.security import ACL, Id, Permissions


def connect(hosts, password=None):
    options = password and {"mechanism": "DIGEST-MD5", "username": "bob", "password": password}
    client = KazooClient(hosts=hosts, sasl_options=options)
    client.start(timeout=20)
    return client


def main(hosts, path, password_file):
    with open(password_file) as f:
        password = f.read().strip()
    client = connect(hosts, password)
    print("ok authenticates")

    client.create(path, b"x", acl=[ACL(Permissions.ALL, Id("sasl", "bob"))])
    if client.get(path)[0] != b"x":
        raise AssertionError("bob reads something else")
    other = connect(hosts)
    try:
        other.get(path)
    except NoAuthError:
        print("ok owns")
    else:
        raise AssertionError("another client reads")

    # kazoo says that it is connected before it authenticates.
    wrong = connect(hosts, password + "x")
    try:
        wrong.get(path)
    except AuthFailedError:
        print("ok refused")
    else:
        raise AssertionError("a wrong password is accepted")
    for c in (client, other, wrong):
        c.stop()
        c.close()


main(*sys.argv[1:])
