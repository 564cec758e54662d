// For programs that do not follow which way the code goes: the sources are compiled once for all.

/** What gcc calls at each place (-fsanitize-coverage=trace-pc). fuzz_main.cc has another. */
extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() {}
