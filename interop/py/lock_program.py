"""Does with kazoo's locks what it is told, step by step, so that a test can bring about the
order of events that it wants.

Usage: lock_program.py HOST:PORT. It prints "ready", and then reads lines "WHO VERB RECIPE
PATH". Every WHO has a session and a thread of its own, does what it is told in order, and
answers each with the line and its result.
"""

import queue
import sys
import threading

from kazoo.client import KazooClient


def say(text):
    """Prints a line by one write: those of two threads must not run into each other."""
    print(text + "\n", end="", flush=True)


class Leading:
    """One candidacy of kazoo's Election, whose function leads until release."""

    def __init__(self, client, path):
        self.election = client.Election(path, "kazoo")

    def acquire(self):
        leads, self.over = threading.Event(), threading.Event()

        def lead():
            leads.set()
            self.over.wait()

        self.term = threading.Thread(target=self.election.run, args=(lead,), daemon=True)
        self.term.start()
        leads.wait()
        return True

    def release(self):
        self.over.set()
        self.term.join()
        return True


RECIPES = {
    "election": Leading,
    "lock": lambda c, path: c.Lock(path),
    "lock-and-others": lambda c, path: c.Lock(path, extra_lock_patterns=["-lock-"]),
    "read": lambda c, path: c.ReadLock(path),
    "write": lambda c, path: c.WriteLock(path),
    "semaphore": lambda c, path: c.Semaphore(path, max_leases=1),
}


def serve(todo):
    client = KazooClient(sys.argv[1])
    client.start(20)
    locks = {}
    while True:
        line = todo.get()
        _, verb, recipe, path = line.split()
        try:
            if (recipe, path) not in locks:
                locks[recipe, path] = RECIPES[recipe](client, path)
            lock = locks[recipe, path]
            result = lock.acquire() if verb == "acquire" else lock.release()
            say("%s: %s" % (line, "done" if result else result))
        except Exception as e:
            say("%s: %r" % (line, e))


def main():
    say("ready")
    everybody = {}
    for line in sys.stdin:
        who = line.split()[0]
        if who not in everybody:
            everybody[who] = queue.Queue()
            threading.Thread(target=serve, args=(everybody[who],), daemon=True).start()
        everybody[who].put(line.strip())


main()
