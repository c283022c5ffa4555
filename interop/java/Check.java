/** What the programs here have in common: a check that ends the program, and a line per step that passed. */
final class Check {
    private Check() {}

    static void that(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object got, Object want, String what) {
        that(want.equals(got), what + ": got " + got + "; want " + want);
    }

    static void passed(String step) {
        System.out.println("ok " + step);
    }
}
