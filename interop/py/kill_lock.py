"""Holds a lock of kazoo until it is killed.

Usage: kill_lock.py HOST:PORT PATH FILE [WORK]. It prints "waits" when it is connected, and, when it holds the lock, a line as
testdata/witness.c does. FILE is locked meanwhile. Into WORK it writes the time until the session is lost.
"""

import fcntl
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState


def main():
    client = KazooClient(sys.argv[1])
    client.start()
    lock = client.Lock(sys.argv[2])
    print("waits", flush=True)
    lock.acquire()
    began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    witness = open(sys.argv[3], "a")
    busy = 0
    try:
        fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        busy = 1
    print("began %d 0 %d\nready" % (began, busy), flush=True)
    if len(sys.argv) > 4:
        work(client)
    time.sleep(1000)


def work(client):
    lost = threading.Event()
    client.add_listener(lambda state: state == KazooState.LOST and lost.set())
    with open(sys.argv[4], "wb", buffering=0) as file:
        while not lost.wait(0.0002):
            file.seek(0)
            file.write(time.clock_gettime_ns(time.CLOCK_BOOTTIME).to_bytes(8, sys.byteorder))
    print("told", flush=True)


main()
