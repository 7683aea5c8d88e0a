// Imported before everything else: the wall clock of this process is set wrong.
const now = Date.now
const skewMs = Number(process.env.ONCEISH_TEST_SKEW_MS)
Date.now = () => now() + skewMs
