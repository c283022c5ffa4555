import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Sets how many children nodes have had, from which the server numbers the next ones, in the data of a server that does
 * not run: nobody can wait for two thousand million of them.
 *
 * <p>Usage: SetCounter DATADIR [PATH NUMBER]...
 */
public final class SetCounter {
    private SetCounter() {}

    public static void main(String[] args) throws Exception {
        File dir = new File(args[0]);
        FileTxnSnapLog log = new FileTxnSnapLog(dir, dir);
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        log.restore(tree, sessions, (header, txn, digest) -> {});
        for (int i = 1; i < args.length; i += 2) {
            tree.getNode(args[i]).stat.setCversion(Integer.parseInt(args[i + 1]));
        }
        log.save(tree, sessions, true);
        log.close();
        Check.passed("counter");
    }
}
