/* A disk that loses heart: while the file named by FAIL_FSYNC_FLAG exists, fsync and fdatasync answer EIO.
 * Loaded with LD_PRELOAD before the hall, which then believes that its disk is failing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int failing(void) {
    const char *flag = getenv("FAIL_FSYNC_FLAG");
    return flag && access(flag, F_OK) == 0;
}

static int sync_or_fail(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (failing() || !real) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int fsync(int fd) { return sync_or_fail("fsync", fd); }

int fdatasync(int fd) { return sync_or_fail("fdatasync", fd); }
