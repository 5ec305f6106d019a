/* libgearman's worker with the functions of tests/system/foreign.py. */
#include <libgearman/gearman.h>
#include <stdio.h>
#include <string.h>

#define SEND(job, how, text) gearman_job_send_##how(job, text, strlen(text))

static gearman_return_t reverse(gearman_job_st *job, void *context) {
  const char *data = gearman_job_workload(job);
  size_t size = gearman_job_workload_size(job);
  char result[4096];
  (void)context;
  for (size_t at = 0; at < size && at < sizeof result; at++) result[at] = data[size - 1 - at];
  gearman_job_send_complete(job, result, size);
  return GEARMAN_SUCCESS;
}

static gearman_return_t count(gearman_job_st *job, void *context) {
  (void)context;
  for (uint32_t step = 1; step <= 3; step++) gearman_job_send_status(job, step, 3);
  SEND(job, complete, "counted");
  return GEARMAN_SUCCESS;
}

static gearman_return_t chunks(gearman_job_st *job, void *context) {
  (void)context;
  SEND(job, data, "one");
  SEND(job, data, "two");
  SEND(job, complete, "three");
  return GEARMAN_SUCCESS;
}

static gearman_return_t warn(gearman_job_st *job, void *context) {
  (void)context;
  SEND(job, warning, "careful");
  SEND(job, complete, "warned");
  return GEARMAN_SUCCESS;
}

static gearman_return_t fail(gearman_job_st *job, void *context) {
  (void)job, (void)context;
  return GEARMAN_FATAL;
}

static gearman_return_t raise_boom(gearman_job_st *job, void *context) {
  (void)context;
  SEND(job, exception, "boom");
  return GEARMAN_FATAL;
}

static gearman_return_t unique(gearman_job_st *job, void *context) {
  (void)context;
  SEND(job, complete, gearman_job_unique(job));
  return GEARMAN_SUCCESS;
}

static gearman_return_t gate(gearman_job_st *job, void *context) {
  char line[64];
  (void)context;
  gearman_job_send_status(job, 3, 7);
  printf("> gate\n");
  if (fgets(line, sizeof line, stdin) == NULL) return GEARMAN_FATAL;
  SEND(job, complete, "opened");
  return GEARMAN_SUCCESS;
}

int main(int argc, char *argv[]) {
  static const struct { const char *name; gearman_function_fn *act; } functions[] = {
      {"reverse", reverse}, {"count", count}, {"chunks", chunks}, {"warn", warn},
      {"fail", fail}, {"raise", raise_boom}, {"unique", unique}, {"gate", gate},
  };
  if (argc != 2) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  gearman_worker_st *worker = gearman_worker_create(NULL);
  gearman_worker_add_options(worker, GEARMAN_WORKER_GRAB_UNIQ);
  gearman_worker_set_identifier(worker, "libgearman", strlen("libgearman"));
  gearman_worker_add_servers(worker, argv[1]);
  for (size_t at = 0; at < sizeof functions / sizeof functions[0]; at++)
    gearman_worker_define_function(worker, functions[at].name, strlen(functions[at].name),
                                   gearman_function_create(functions[at].act), 0, NULL);
  printf("> ready\n");
  for (;;) {
    gearman_return_t rc = gearman_worker_work(worker);
    if (gearman_failed(rc) && rc != GEARMAN_WORK_FAIL) {
      fprintf(stderr, "work: %s\n", gearman_worker_error(worker));
      return 1;
    }
  }
}
