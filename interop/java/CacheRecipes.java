import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/** Caches that follow a tree, and nodes that come back, with the server restarted in between. */
final class CacheRecipes {
    private static final int CHANGES = 150;
    private static final String TREE = Recipes.ROOT + "/tree";

    private final Recipes all;
    private final CuratorFramework client;

    CacheRecipes(Recipes all) {
        this.all = all;
        client = all.client;
    }

    void run() throws Exception {
        caches();
        persistentNode();
    }

    /**
     * One-shot watches in the first two caches, a persistent recursive one in the third. That has a client of its own:
     * Apache's server 3.8.0 has one kind of watch on a node for each (ZOOKEEPER-4466).
     */
    private void caches() throws Exception {
        client.createContainers(TREE);
        try (CuratorFramework own = CuratorClient.connect(all.servers);
                PathChildrenCache children = new PathChildrenCache(client, TREE, true);
                TreeCache tree = new TreeCache(client, TREE);
                CuratorCache cache = CuratorCache.build(own, TREE)) {
            children.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
            tree.start();
            cache.start();
            all.together("caches");
            Random random = new Random(all.role);
            changes(random, "before");
            equal(children, tree, cache);
            all.together("caches-equal");
            all.restart(); // while the others go on
            changes(random, "behind");
            equal(children, tree, cache);
        }
        Check.passed("caches");
    }

    private void changes(Random random, String where) throws Exception {
        for (int i = 0; i < CHANGES; i++) {
            change(random);
        }
        all.together("caches-changed-" + where);
    }

    private void equal(PathChildrenCache children, TreeCache tree, CuratorCache cache) throws Exception {
        Map<String, String> want = new TreeMap<>();
        read(TREE, want);
        Check.that(want.size() > 10, "only " + want.size() + " nodes to cache");
        await("CuratorCache", want, () -> {
            Map<String, String> got = new TreeMap<>();
            cache.stream().forEach(data -> got.put(data.getPath(), text(data.getData())));
            return got;
        });
        await("TreeCache", want, () -> {
            Map<String, String> got = new TreeMap<>();
            collect(tree, tree.getCurrentData(TREE), got);
            return got;
        });
        want.keySet().removeIf(path -> path.lastIndexOf('/') != TREE.length());
        await("PathChildrenCache", want, () -> {
            Map<String, String> got = new TreeMap<>();
            children.getCurrentData().forEach(data -> got.put(data.getPath(), text(data.getData())));
            return got;
        });
    }

    private void change(Random random) throws Exception {
        String path = TREE + "/" + random.nextInt(6);
        if (random.nextBoolean()) {
            path += "/" + random.nextInt(4);
        }
        byte[] data = Integer.toString(random.nextInt(1000)).getBytes(StandardCharsets.UTF_8);
        try {
            switch (random.nextInt(3)) {
                case 0:
                    client.create().forPath(path, data);
                    break;
                case 1:
                    client.setData().forPath(path, data);
                    break;
                default:
                    client.delete().forPath(path);
            }
        } catch (KeeperException.NoNodeException | KeeperException.NodeExistsException | KeeperException.NotEmptyException expected) {
            // All processes change the same tree.
        }
    }

    private void read(String path, Map<String, String> into) throws Exception {
        into.put(path, text(client.getData().forPath(path)));
        for (String name : client.getChildren().forPath(path)) {
            read(path + "/" + name, into);
        }
    }

    private static void collect(TreeCache tree, ChildData node, Map<String, String> into) {
        if (node == null) {
            return;
        }
        into.put(node.getPath(), text(node.getData()));
        tree.getCurrentChildren(node.getPath()).values().forEach(child -> collect(tree, child, into));
    }

    private static void await(String what, Map<String, String> want, Callable<Map<String, String>> cache) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Recipes.WAIT_SECONDS);
        for (Map<String, String> got = cache.call(); !got.equals(want); got = cache.call()) {
            Check.that(System.nanoTime() < end, what + " has " + got + "; the tree is " + want);
            Thread.sleep(10); // the last notifications are on the way
        }
    }

    private static String text(byte[] data) {
        return data == null ? "null" : new String(data, StandardCharsets.UTF_8);
    }

    private void persistentNode() throws Exception {
        String path = Recipes.ROOT + "/persistent/" + all.role;
        String next = Recipes.ROOT + "/persistent/" + (all.role + 1) % all.roles;
        byte[] data = {(byte) all.role};
        try (PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, path, data)) {
            node.start();
            Check.that(node.waitForInitialCreate(Recipes.WAIT_SECONDS, TimeUnit.SECONDS), path + " was created");
            all.together("persistent");
            all.restart();
            long born = client.checkExists().forPath(next).getCzxid();
            all.together("persistent-seen");
            client.delete().forPath(next);
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Recipes.WAIT_SECONDS);
            while (client.checkExists().forPath(next) == null) {
                Check.that(System.nanoTime() < end, next + " came back");
                Thread.sleep(5);
            }
            Check.that(client.checkExists().forPath(next).getCzxid() > born, next + " is a new node");
            all.together("persistent-passed");
        }
        all.together("persistent-closed");
        Check.that(client.checkExists().forPath(next) == null, next + " went with its PersistentNode");
        Check.passed("persistent");
    }
}
