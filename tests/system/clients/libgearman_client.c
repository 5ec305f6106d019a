/* libgearman's client, told what to do line by line; see tests/system/foreign.py for the words.
   Two tasks with one handle are more than it can tell apart: it waits for the second for ever, at gearmand too. */
#include <libgearman/gearman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_bytes(const char *word, gearman_task_st *task) {
  printf("> %s %.*s\n", word, (int)gearman_task_data_size(task), (const char *)gearman_task_data(task));
}

static gearman_return_t on_data(gearman_task_st *task) { say_bytes("data", task); return GEARMAN_SUCCESS; }
static gearman_return_t on_warning(gearman_task_st *task) { say_bytes("warning", task); return GEARMAN_SUCCESS; }
static gearman_return_t on_complete(gearman_task_st *task) { say_bytes("complete", task); return GEARMAN_SUCCESS; }
static gearman_return_t on_exception(gearman_task_st *task) { say_bytes("exception", task); return GEARMAN_SUCCESS; }
static gearman_return_t on_fail(gearman_task_st *task) { (void)task; printf("> fail\n"); return GEARMAN_SUCCESS; }

static gearman_return_t on_status(gearman_task_st *task) {
  printf("> progress %u %u\n", gearman_task_numerator(task), gearman_task_denominator(task));
  return GEARMAN_SUCCESS;
}

typedef gearman_task_st *(add_fn)(gearman_client_st *, gearman_task_st *, void *, const char *, const char *,
                                  const void *, size_t, gearman_return_t *);

static add_fn *adder(int background, const char *priority) {
  if (strcmp(priority, "high") == 0)
    return background ? gearman_client_add_task_high_background : gearman_client_add_task_high;
  if (strcmp(priority, "low") == 0)
    return background ? gearman_client_add_task_low_background : gearman_client_add_task_low;
  return background ? gearman_client_add_task_background : gearman_client_add_task;
}

static gearman_task_st *add(gearman_client_st *client, int background, const char *priority, const char *function,
                            const char *unique, const char *data) {
  gearman_return_t rc;
  const char *key = strcmp(unique, ".") == 0 ? NULL : unique;
  return adder(background, priority)(client, NULL, NULL, function, key, data, strlen(data), &rc);
}

static void obey(gearman_client_st *client, char *words[], int count) {
  const char *word = words[0];
  if (strcmp(word, "run") == 0 && count == 5) {
    add(client, 0, words[1], words[2], words[3], words[4]);
    gearman_client_run_tasks(client);
  } else if (strcmp(word, "background") == 0 && count == 5) {
    gearman_task_st *task = add(client, 1, words[1], words[2], words[3], words[4]);
    gearman_client_run_tasks(client);
    printf("> created %s\n", gearman_task_job_handle(task));
  } else if (strcmp(word, "at") == 0 && count == 5) {
    gearman_task_attr_t when = gearman_task_attr_init_epoch(atol(words[1]), GEARMAN_JOB_PRIORITY_NORMAL);
    gearman_argument_t data = gearman_argument_make(NULL, 0, words[4], strlen(words[4]));
    gearman_task_st *task = gearman_execute(client, words[2], strlen(words[2]), words[3], strlen(words[3]), &when,
                                            &data, NULL);
    printf("> created %s\n", task ? gearman_task_job_handle(task) : gearman_client_error(client));
  } else if (strcmp(word, "status") == 0 && count == 2) {
    bool known, running;
    uint32_t numerator, denominator;
    gearman_client_job_status(client, words[1], &known, &running, &numerator, &denominator);
    printf("> status %d %d %u %u\n", known, running, numerator, denominator);
  } else if (strcmp(word, "unique") == 0 && count == 2) {
    gearman_status_t status = gearman_client_unique_status(client, words[1], strlen(words[1]));
    printf("> status %d %d %u %u %u\n", gearman_status_is_known(status), gearman_status_is_running(status),
           gearman_status_numerator(status), gearman_status_denominator(status),
           status.status_.mesg_.client_count);
  } else if (strcmp(word, "echo") == 0 && count == 2) {
    gearman_return_t rc = gearman_client_echo(client, words[1], strlen(words[1]));
    printf("> echo %s\n", rc == GEARMAN_SUCCESS ? words[1] : gearman_strerror(rc));
  } else if (strcmp(word, "reduce") == 0 && count == 5) {
    gearman_argument_t data = gearman_argument_make(NULL, 0, words[4], strlen(words[4]));
    gearman_task_st *task = gearman_execute_by_partition(client, words[1], strlen(words[1]), words[2],
                                                         strlen(words[2]), words[3], strlen(words[3]), NULL,
                                                         &data, NULL);
    gearman_result_st *result = task ? gearman_task_result(task) : NULL;
    if (result == NULL) printf("> error %s\n", gearman_client_error(client));
    else printf("> complete %.*s\n", (int)gearman_result_size(result), gearman_result_value(result));
  } else {
    printf("> cannot\n");
  }
  gearman_client_task_free_all(client);
}

int main(int argc, char *argv[]) {
  char line[4096], *words[8];
  if (argc != 2) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  gearman_client_st *client = gearman_client_create(NULL);
  gearman_client_add_servers(client, argv[1]);
  gearman_client_set_timeout(client, 20000);
  if (!gearman_client_set_server_option(client, "exceptions", strlen("exceptions"))) {
    fprintf(stderr, "option: %s\n", gearman_client_error(client));
    return 1;
  }
  gearman_client_set_data_fn(client, on_data);
  gearman_client_set_warning_fn(client, on_warning);
  gearman_client_set_status_fn(client, on_status);
  gearman_client_set_complete_fn(client, on_complete);
  gearman_client_set_exception_fn(client, on_exception);
  gearman_client_set_fail_fn(client, on_fail);
  while (fgets(line, sizeof line, stdin) != NULL) {
    int count = 0;
    for (char *word = strtok(line, " \n"); word != NULL && count < 8; word = strtok(NULL, " \n")) words[count++] = word;
    if (count > 0) obey(client, words, count);
    printf("> ok\n");
  }
  gearman_client_free(client);
  return 0;
}
