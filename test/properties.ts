/** A property ends before the limit of its test, which would not say what seed it had. */
import fc from 'fast-check';

fc.configureGlobal({ interruptAfterTimeLimit: 100_000, markInterruptAsFailure: true });
