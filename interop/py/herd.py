"""Many sessions that wait for one lock, each of which takes it once.

Usage: herd.py HOST:PORT PATH SESSIONS. Prints "ready" when all are connected; they queue
then. Prints "held" whenever one of them has the lock, which it releases at the next line
on standard input. Ends with standard input.
"""

import os
import queue
import sys
import threading

from kazoo.client import KazooClient

turns = queue.Queue()


def take(client, path):
    try:
        lock = client.Lock(path, "kazoo")
        lock.acquire()
        print("held\n", end="", flush=True)  # one write, so that lines of two threads stay apart
        turns.get()
        lock.release()
    except Exception as e:
        print(repr(e) + "\n", end="", flush=True)


def main():
    host, path, sessions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    threading.stack_size(256 << 10)
    clients = [KazooClient(host, timeout=40) for _ in range(sessions)]
    connected = [c.start_async() for c in clients]
    for event in connected:
        if not event.wait(60):
            sys.exit("not connected")
    print("ready", flush=True)
    for c in clients:
        threading.Thread(target=take, args=(c, path), daemon=True).start()
    for line in sys.stdin:
        turns.put(line)
    os._exit(0)  # as a process that is killed


main()
