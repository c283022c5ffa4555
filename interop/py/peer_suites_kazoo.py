"""kazoo's own tests, as Debian installs them, against a server of one node.

Usage: peer_suites_kazoo.py HOST:PORT COMMAND... The command is the server, which is
killed and started again where a test asks for it. One line "ok|fail|error|skip TEST" per
test; the details of failures are on standard error.

kazoo's harness starts Java itself, so the one function that does is replaced; and what it
wants of pytest, mock and objgraph is made of the standard library, since it is little.
"""

import gc
import os
import socket
import subprocess
import sys
import time
import types
import unittest
import unittest.mock

ADDRESS, COMMAND = sys.argv[1], sys.argv[2:]
os.environ.setdefault("ZOOKEEPER_VERSION", "3.8.0")


def module(name, **content):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(content)


class Raises:
    def __init__(self, *errors):
        self.errors = errors

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.type, self.value = kind, value
        if kind is None:
            raise AssertionError("%r was not raised" % (self.errors,))
        return issubclass(kind, self.errors)


def raises(errors, f=None, *args, **kwargs):
    r = Raises(*errors) if isinstance(errors, tuple) else Raises(errors)
    if f is None:
        return r
    with r:
        f(*args, **kwargs)


def skip(reason):
    raise unittest.SkipTest(reason)


module("pytest", raises=raises, skip=skip, fixture=lambda f: f)
sys.modules["mock"] = unittest.mock
module("objgraph", count=lambda name: sum(type(o).__name__ == name for o in gc.get_objects()))

import kazoo.tests.test_client  # noqa: E402
import kazoo.testing.harness  # noqa: E402  (wants the modules above)


class Server:
    address = ADDRESS
    process = None

    @property
    def running(self):
        return self.process is not None

    def run(self):
        if self.running:
            return
        self.process = subprocess.Popen(COMMAND, stdout=subprocess.DEVNULL)
        host, port = ADDRESS.rsplit(":", 1)
        while True:
            try:
                socket.create_connection((host, int(port))).close()
                return
            except ConnectionRefusedError:
                if self.process.poll() is not None:
                    raise SystemExit("the server ended with %d" % self.process.returncode)
                time.sleep(0.01)

    def stop(self):
        if self.running:
            self.process.kill()
            self.process.wait()
            self.process = None


class Cluster(list):
    def start(self):
        for server in self:
            server.run()


cluster = Cluster([Server()])
kazoo.testing.harness.get_global_cluster = lambda: cluster

SUITES = """barrier cache client connection counter election exceptions hosts lease lock partitioner party
paths queue retry security threading_handler utils watchers""".split()


class Result(unittest.TestResult):
    def say(self, outcome, test, details=""):
        print(outcome, test.id().removeprefix("kazoo.tests."), flush=True)
        if details:
            print(test.id(), details, sep="\n", file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self.say("ok", test)

    def addFailure(self, test, err):
        self.say("fail", test, self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.say("error", test, self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self.say("skip", test)


# Needs an ensemble, and waits for one forever.
del kazoo.tests.test_client.TestReconfig

try:
    cluster.start()
    names = ["kazoo.tests.test_" + s for s in SUITES]
    unittest.defaultTestLoader.loadTestsFromNames(names).run(Result())
finally:
    cluster[0].stop()
