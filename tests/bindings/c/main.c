/* Runs the tests of the C interface, or those named on the command line. */
#include "check.h"

static int failures;

void check_failed(const char* file, int line, const char* what, const char* why) {
  __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
}

void check_code(const char* file, int line, const char* call, tessera_code code, tessera_code expected,
                const char* text) {
  char why[512];
  const char* error = code == TESSERA_OK ? "" : tessera_last_error();
  if (code == expected && strstr(error, text)) return;
  snprintf(why, sizeof why, "%s \"%s\", expected %s with \"%s\"", tessera_code_name(code), error,
           tessera_code_name(expected), text);
  check_failed(file, line, call, why);
}

struct named_test {
  const char* name;
  void (*run)(void);
};

#define NAMED(name) {#name, test_##name},
static const struct named_test tests[] = {TESTS(NAMED)};

static int is_chosen(const char* name, int count, char** names) {
  int i;
  for (i = 1; i < count; ++i) {
    if (strcmp(names[i], name) == 0) return 1;
  }
  return count == 1;
}

int main(int count, char** names) {
  size_t i, ran = 0;
  for (i = 0; i < COUNT(tests); ++i) {
    const int before = failures;
    if (!is_chosen(tests[i].name, count, names)) continue;
    ++ran;
    tests[i].run();
    if (tessera_live_handles() != 0) {
      char live[64];
      snprintf(live, sizeof live, "%zu are left", tessera_live_handles());
      check_failed(tests[i].name, 0, "live handles", live);
    }
    if (failures != before) fprintf(stderr, "FAILED: %s %s\n", names[0], tests[i].name);
  }
  printf("%zu tests, %d failures\n", ran, failures);
  return failures != 0 || ran == 0;
}
