import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.zookeeper.KeeperException;

/**
 * Curator's recipes, shared by several of these processes. Each checks what its recipe promises.
 *
 * <p>Usage: Recipes CONNECT DIRECTORY ROLE ROLES. One line "ok STEP" per step. Role 0 prints "restart" where the server
 * is to be killed and started again, and goes on at the next line of standard input.
 */
public final class Recipes {
    static final int WAIT_SECONDS = 40;
    static final String ROOT = "/recipes";

    final CuratorFramework client;
    final String servers;
    final Path directory;
    final int role;
    final int roles;

    private Recipes(CuratorFramework client, String[] args) {
        this.client = client;
        servers = args[0];
        directory = Paths.get(args[1]);
        role = Integer.parseInt(args[2]);
        roles = Integer.parseInt(args[3]);
    }

    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorClient.connect(args[0])) {
            Recipes it = new Recipes(client, args);
            new LockRecipes(it).run();
            new LeaderRecipes(it).run();
            new SharingRecipes(it).run();
            new CacheRecipes(it).run();
        }
    }

    /**
     * Waits until all processes are here. Role 0 may have the server killed as soon as it is through, and the barrier
     * does not survive that; but then it is open, and its node "ready" is there.
     */
    void together(String where) throws Exception {
        String path = ROOT + "/together/" + where;
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path, roles);
        boolean open;
        try {
            open = barrier.enter(WAIT_SECONDS, TimeUnit.SECONDS);
        } catch (KeeperException.ConnectionLossException e) {
            open = client.checkExists().forPath(path + "/ready") != null;
        }
        Check.that(open, "all processes at " + where);
    }

    /** Has the server killed and started again, if this is role 0. */
    void restart() throws IOException {
        if (role == 0) {
            System.out.println("restart");
            while (System.in.read() != '\n') {}
        }
    }

    /** A number that loses an update if two add to it at once. */
    final class Number {
        private final Path file;

        Number(String name) {
            file = directory.resolve(name);
        }

        int get() throws IOException {
            return Files.exists(file) ? Integer.parseInt(Files.readString(file).trim()) : 0;
        }

        void add() throws Exception {
            int n = get();
            Thread.sleep(1);
            Files.writeString(file, Integer.toString(n + 1));
        }
    }

    /** Says that the step has passed, when all are through and the number is what it should be. */
    void passed(String step, Number number, int want) throws Exception {
        together(step + "-passed");
        Check.equal(number.get(), want, "number under " + step);
        Check.passed(step);
    }
}
