import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;

/**
 * ZooKeeper's own client with SASL DIGEST-MD5.
 *
 * <p>Usage: SaslClient CONNECT ROOT JAAS-FILE. In the file, Bob has the right password and Wrong has not. One line "ok
 * STEP" per step; a failed check ends it with an exception.
 */
public final class SaslClient {
    private static final int WAIT_SECONDS = 20;

    /** One client and what it has been told of its state. */
    private static final class Client implements AutoCloseable {
        final BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
        final ZooKeeper zk;

        /** The section of the JAAS file is null for a client without SASL. */
        Client(String connect, String section) throws Exception {
            ZKClientConfig config = new ZKClientConfig();
            config.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, String.valueOf(section != null));
            if (section != null) {
                config.setProperty(ZKClientConfig.LOGIN_CONTEXT_NAME_KEY, section);
            }
            zk = new ZooKeeper(connect, 10_000, (WatchedEvent e) -> states.add(e.getState()), config);
        }

        void await(KeeperState want) throws Exception {
            while (true) {
                KeeperState state = states.poll(WAIT_SECONDS, TimeUnit.SECONDS);
                Check.that(state != null, "no " + want + " came");
                if (state == want) {
                    return;
                }
            }
        }

        @Override
        public void close() throws InterruptedException {
            zk.close();
        }
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("java.security.auth.login.config", args[2]);
        String connect = args[0];
        String path = args[1];
        List<ACL> bobs = Collections.singletonList(new ACL(Perms.ALL, new Id("sasl", "bob")));
        try (Client bob = new Client(connect, "Bob")) {
            bob.await(KeeperState.SaslAuthenticated);
            boolean known = false;
            for (ClientInfo info : bob.zk.whoAmI()) {
                known |= info.getAuthScheme().equals("sasl") && info.getUser().equals("bob");
            }
            Check.that(known, "who am I: " + bob.zk.whoAmI());
            Check.passed("authenticates");

            bob.zk.create(path, "x".getBytes(StandardCharsets.UTF_8), bobs, CreateMode.PERSISTENT);
            bob.zk.create(path + "/auth", null, Ids.CREATOR_ALL_ACL, CreateMode.EPHEMERAL);
            Check.equal(bob.zk.getACL(path + "/auth", null), bobs, "ACL of its own");
            try (Client other = new Client(connect, null)) {
                other.await(KeeperState.SyncConnected);
                try {
                    other.zk.getData(path, false, null);
                    throw new AssertionError("another client reads");
                } catch (KeeperException.NoAuthException e) {
                    Check.passed("owns");
                }
            }
        }
        try (Client wrong = new Client(connect, "Wrong")) {
            wrong.await(KeeperState.AuthFailed);
            Check.passed("refused");
        }
    }
}
