import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** The node that stands for a lock that this thread holds, which Curator tells to its subclasses alone. */
final class Nodes {
    private Nodes() {}

    static String of(InterProcessMutex held) throws Exception {
        Method path = InterProcessMutex.class.getDeclaredMethod("getLockPath");
        path.setAccessible(true);
        return (String) path.invoke(held);
    }

    static String of(LeaderSelector leading) throws Exception {
        Field mutex = LeaderSelector.class.getDeclaredField("mutex");
        mutex.setAccessible(true);
        return of((InterProcessMutex) mutex.get(leading));
    }
}
