// Uses a kilobyte of static TLS, as some libraries do.
thread_local char greedy[1024];
extern "C" __attribute__((visibility("default"))) char* greedy_memory() { return greedy; }
