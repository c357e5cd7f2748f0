/* Finds, reads and re-reads the scenario of the node that this process runs on.
 *
 * The file is <folder of this library>/../nodes/<node>/nvml, where node is $SLURMD_NODENAME or else the host name
 * (each node of the lab has its own). It is replaced by rename, so a new inode or mtime means new values: a fault
 * shows in processes that already run.
 */
#define _GNU_SOURCE
#include "scenario.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINES = 4096, KEY_BYTES = 64 };

struct line {
    char key[KEY_BYTES];
    char text[TEXT_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct line lines[MAX_LINES];
static size_t num_lines;
static struct stat seen;

static void find_path(char path[PATH_MAX]) {
    char node[256] = "";
    const char *name = getenv("SLURMD_NODENAME");
    Dl_info self;
    char folder[PATH_MAX] = ".";
    if (!name || strchr(name, '/')) {
        gethostname(node, sizeof node - 1);
        name = node;
    }
    if (dladdr((void *)find_path, &self) && self.dli_fname)
        snprintf(folder, sizeof folder, "%s", self.dli_fname);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    if (snprintf(path, PATH_MAX, "%s/../nodes/%s/nvml", folder, name) >= PATH_MAX) path[0] = 0;
}

static int same_file(const struct stat *now) {
    return now->st_ino == seen.st_ino && now->st_size == seen.st_size && now->st_mtim.tv_sec == seen.st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == seen.st_mtim.tv_nsec;
}

static void read_lines(FILE *file) {
    char text[KEY_BYTES + TEXT_BYTES];
    num_lines = 0;
    while (num_lines < MAX_LINES && fgets(text, sizeof text, file)) {
        struct line *line = &lines[num_lines];
        if (sscanf(text, "%63s %255[^\n]", line->key, line->text) == 2) num_lines++;
    }
}

static int refresh_locked(void) {
    char path[PATH_MAX];
    struct stat now;
    find_path(path);
    if (stat(path, &now) != 0) return -1;
    if (same_file(&now)) return 0;
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    read_lines(file);
    fclose(file);
    seen = now;
    return 0;
}

int scenario_refresh(void) {
    pthread_mutex_lock(&lock);
    int result = refresh_locked();
    pthread_mutex_unlock(&lock);
    return result;
}

int scenario_text(const char *key, char text[TEXT_BYTES]) {
    int result = -1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < num_lines; i++) {
        if (strcmp(lines[i].key, key) != 0) continue;
        memcpy(text, lines[i].text, TEXT_BYTES);
        result = strcmp(text, "n/a") == 0 ? -1 : 0;
        break;
    }
    pthread_mutex_unlock(&lock);
    return result;
}
