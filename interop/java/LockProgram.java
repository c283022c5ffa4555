import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * Does with locks what it is told, step by step, so that a test can bring about the order of events that it wants.
 *
 * <p>Usage: LockProgram CONNECT. It prints "ready", and then reads lines "WHO VERB RECIPE PATH". Every WHO has a session
 * and a thread of its own, does what it is told in order, and answers each with the line and its result.
 */
public final class LockProgram {
    private final String connect;
    private final ExecutorService thread = Executors.newSingleThreadExecutor(r -> {
        Thread t = new Thread(r);
        t.setDaemon(true);
        return t;
    });
    private final Map<String, InterProcessReadWriteLock> sides = new HashMap<>();
    private final Map<String, InterProcessMutex> mutexes = new HashMap<>();
    private final Map<String, InterProcessSemaphoreV2> semaphores = new HashMap<>();
    private final Map<String, Lease> leases = new HashMap<>();
    private final Map<String, LeaderLatch> latches = new HashMap<>();
    private final Map<String, WriteLock> writeLocks = new HashMap<>();
    private CuratorFramework client;
    private Slow slow;

    private LockProgram(String connect) {
        this.connect = connect;
    }

    public static void main(String[] args) throws Exception {
        Map<String, LockProgram> all = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            LockProgram who = all.computeIfAbsent(words[0], w -> new LockProgram(args[0]));
            String told = line;
            if (words[1].equals("go")) { // not in its thread, which waits for this
                who.slow.go.release();
                continue;
            }
            who.thread.submit(() -> {
                try {
                    System.out.println(told + ": " + who.does(words[0], words[1], words[2], words[3]));
                } catch (Throwable e) {
                    System.out.println(told + ": " + e);
                }
            });
        }
    }

    private String does(String who, String verb, String recipe, String path) throws Exception {
        if (recipe.equals("writelock")) {
            return doesWriteLock(who, verb, path);
        }
        if (client == null) {
            client = CuratorClient.connect(connect);
        }
        if (verb.equals("revoke")) { // the path is that of a node
            Revoker.attemptRevoke(client, path);
            return "done";
        }
        if (recipe.equals("semaphore")) { // with one permit
            InterProcessSemaphoreV2 semaphore = semaphores.computeIfAbsent(path, p -> new InterProcessSemaphoreV2(client, p, 1));
            if (verb.equals("acquire")) {
                leases.put(path, semaphore.acquire());
            } else {
                semaphore.returnLease(leases.remove(path));
            }
            return "done";
        }
        if (recipe.equals("latch")) {
            if (verb.equals("acquire")) {
                LeaderLatch latch = new LeaderLatch(client, path, who);
                latches.put(path, latch);
                latch.start();
                latch.await();
            } else {
                latches.remove(path).close();
            }
            return "done";
        }
        InterProcessMutex lock;
        if (recipe.equals("mutex")) {
            lock = mutexes.computeIfAbsent(path, p -> new InterProcessMutex(client, p));
        } else {
            InterProcessReadWriteLock rw = sides.computeIfAbsent(path, p -> new InterProcessReadWriteLock(client, p));
            lock = recipe.equals("write") ? rw.writeLock() : rw.readLock();
        }
        switch (verb) {
            case "acquire-revocable":
                lock.makeRevocable(asked -> System.out.println(who + " was asked: " + path));
                lock.acquire();
                break;
            case "acquire":
                lock.acquire();
                break;
            default:
                lock.release();
        }
        return "done";
    }

    /** WriteLock does not block: lock() says whether it is the owner, and is asked again. */
    private String doesWriteLock(String who, String verb, String path) throws Exception {
        if (slow == null) {
            Semaphore connected = new Semaphore(0);
            slow = new Slow(who, connect, event -> connected.release());
            Check.that(connected.tryAcquire(20, TimeUnit.SECONDS), "connected to " + connect);
        }
        WriteLock lock = writeLocks.computeIfAbsent(path, p -> new WriteLock(slow, p, ZooDefs.Ids.OPEN_ACL_UNSAFE));
        switch (verb) {
            case "acquire-late": // is held up between the list and the watch
                slow.late = true;
                return String.valueOf(lock.lock());
            case "acquire-lost": // does not get the answer to its create
                slow.lost = true;
                return String.valueOf(lock.lock());
            case "acquire":
                return String.valueOf(lock.lock());
            case "owns":
                return String.valueOf(lock.isOwner());
            default:
                lock.unlock();
                return "done";
        }
    }

    /** A client to which happens what may happen to any. */
    private static final class Slow extends ZooKeeper {
        final Semaphore go = new Semaphore(0);
        private final String who;
        volatile boolean late;
        volatile boolean lost;

        Slow(String who, String connect, Watcher watcher) throws Exception {
            super(connect, 15000, watcher);
            this.who = who;
        }

        @Override
        public Stat exists(String path, Watcher watcher) throws KeeperException, InterruptedException {
            if (late && watcher != null) {
                late = false;
                System.out.println(who + " looks");
                go.acquire();
            }
            return super.exists(path, watcher);
        }

        @Override
        public String create(String path, byte[] data, java.util.List<ACL> acl, CreateMode mode)
                throws KeeperException, InterruptedException {
            String made = super.create(path, data, acl, mode);
            if (lost && mode.isSequential()) {
                lost = false;
                throw new KeeperException.ConnectionLossException();
            }
            return made;
        }
    }
}
