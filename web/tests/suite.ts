/** Which of the suites is run, as make says; by hand all that a change must pass. */
const SUITE = process.env.EDGEWISE_SUITE ?? "landing";

if (!["quick", "landing", "full"].includes(SUITE)) {
  throw new Error(`EDGEWISE_SUITE is quick, landing or full, not '${SUITE}'`);
}

/** A sample of what a change must pass. */
export const QUICK = SUITE === "quick";

/** The full counts; else a sample of them. */
export const FULL = SUITE === "full";
