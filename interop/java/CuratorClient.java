import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.data.Stat;

/**
 * What Curator asks of a server: protected creates in containers, watches, transactions, deletes, a mutex.
 *
 * <p>Usage: CuratorClient CONNECT ROOT. One line "ok STEP" per step; a failed check ends it with an exception.
 */
public final class CuratorClient {
    private static final int WAIT_SECONDS = 20;

    private final CuratorFramework client;
    private final String root;

    private CuratorClient(CuratorFramework client, String root) {
        this.client = client;
        this.root = root;
    }

    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = connect(args[0]);
                CuratorFramework other = connect(args[0])) {
            CuratorClient it = new CuratorClient(client, args[1]);
            it.creates();
            it.watches();
            it.transactions();
            it.mutex(other);
            it.deletes();
        }
    }

    static CuratorFramework connect(String servers) throws Exception {
        return connect(servers, 8000);
    }

    static CuratorFramework connect(String servers, int sessionMillis) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(servers, sessionMillis, 15000, new ExponentialBackoffRetry(100, 5));
        client.start();
        Check.that(client.blockUntilConnected(WAIT_SECONDS, TimeUnit.SECONDS), "connected to " + servers);
        return client;
    }

    private void creates() throws Exception {
        String path = client.create()
                .creatingParentContainersIfNeeded()
                .withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath(root + "/parents/made/on-the-way/node-", bytes("hello"));
        Check.that(path.matches(root + "/parents/made/on-the-way/_c_[0-9a-f-]{36}-node-\\d{10}"), "protected name, got " + path);
        Stat stat = new Stat();
        Check.equal(text(client.getData().storingStatIn(stat).forPath(path)), "hello", "data of " + path);
        Check.equal(stat.getEphemeralOwner(), client.getZookeeperClient().getZooKeeper().getSessionId(), "owner of " + path);
        // The owner that marks a container inside the server (Long.MIN_VALUE) is not shown to clients.
        Stat parent = client.checkExists().forPath(root + "/parents/made/on-the-way");
        Check.equal(parent.getEphemeralOwner(), 0L, "ephemeralOwner of a container");
        Check.equal(parent.getNumChildren(), 1, "children of the container");
        try {
            client.create().forPath(path + "/below", bytes(""));
            Check.that(false, "a child below an ephemeral node was created");
        } catch (KeeperException.NoChildrenForEphemeralsException expected) {
            Check.passed("creates");
        }
    }

    private void watches() throws Exception {
        String path = root + "/watched";
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        Check.that(client.checkExists().usingWatcher((org.apache.zookeeper.Watcher) events::add).forPath(path) == null, "not there yet");
        client.create().forPath(path, bytes("1"));
        expect(events, EventType.NodeCreated, path);
        client.getData().usingWatcher((org.apache.zookeeper.Watcher) events::add).forPath(path);
        client.setData().withVersion(0).forPath(path, bytes("2"));
        expect(events, EventType.NodeDataChanged, path);
        try {
            client.setData().withVersion(0).forPath(path, bytes("3"));
            Check.that(false, "a set with an old version went through");
        } catch (KeeperException.BadVersionException expected) {
            Check.equal(text(client.getData().forPath(path)), "2", "data after a refused set");
        }
        client.getChildren().usingWatcher((org.apache.zookeeper.Watcher) events::add).forPath(path);
        client.create().forPath(path + "/child", bytes(""));
        expect(events, EventType.NodeChildrenChanged, path);
        client.delete().forPath(path + "/child");
        client.checkExists().usingWatcher((org.apache.zookeeper.Watcher) events::add).forPath(path);
        client.delete().guaranteed().forPath(path);
        expect(events, EventType.NodeDeleted, path);
        Check.that(events.isEmpty(), "a watch fires once, left over: " + events);
        Check.passed("watches");
    }

    private void transactions() throws Exception {
        String path = root + "/transaction";
        client.transaction().forOperations(
                client.transactionOp().create().forPath(path, bytes("1")),
                client.transactionOp().check().withVersion(0).forPath(path),
                client.transactionOp().setData().forPath(path, bytes("2")),
                client.transactionOp().create().forPath(path + "/child", bytes("")),
                client.transactionOp().delete().forPath(path + "/child"));
        Check.equal(text(client.getData().forPath(path)), "2", "data after the transaction");
        try {
            client.transaction().forOperations(
                    client.transactionOp().setData().forPath(path, bytes("3")),
                    client.transactionOp().check().withVersion(7).forPath(path));
            Check.that(false, "a transaction with a failing check went through");
        } catch (KeeperException.BadVersionException expected) {
            Check.equal(text(client.getData().forPath(path)), "2", "data after the refused transaction");
        }
        Check.passed("transactions");
    }

    private void mutex(CuratorFramework other) throws Exception {
        String path = root + "/mutex";
        InterProcessMutex mine = new InterProcessMutex(client, path);
        InterProcessMutex theirs = new InterProcessMutex(other, path);
        mine.acquire();
        Check.that(!theirs.acquire(200, TimeUnit.MILLISECONDS), "two clients hold one mutex");
        Thread waiter = new Thread(() -> {
            try {
                Check.that(theirs.acquire(WAIT_SECONDS, TimeUnit.SECONDS), "the waiter got the mutex");
                theirs.release();
            } catch (Exception e) {
                throw new AssertionError(e);
            }
        });
        Throwable[] failed = new Throwable[1];
        waiter.setUncaughtExceptionHandler((thread, e) -> failed[0] = e);
        waiter.start();
        while (mine.getParticipantNodes().size() < 2) {
            Thread.sleep(5);
        }
        mine.release();
        waiter.join();
        Check.that(failed[0] == null, "waiter: " + failed[0]);
        Check.that(mine.getParticipantNodes().isEmpty(), "nodes left in the queue: " + mine.getParticipantNodes());
        Check.passed("mutex");
    }

    private void deletes() throws Exception {
        client.delete().guaranteed().deletingChildrenIfNeeded().forPath(root);
        Check.that(client.checkExists().forPath(root) == null, root + " is still there");
        Check.passed("deletes");
    }

    private static void expect(BlockingQueue<WatchedEvent> events, EventType type, String path) throws InterruptedException {
        WatchedEvent event = events.poll(WAIT_SECONDS, TimeUnit.SECONDS);
        Check.that(event != null, "no event; want " + type + " of " + path);
        Check.equal(event.getType(), type, "event of " + path);
        Check.equal(event.getPath(), path, "path of the event");
    }

    private static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }
}
