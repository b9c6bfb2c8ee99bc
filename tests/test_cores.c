/* test_cores - tests the default number of threads of vit_threads_create. The test writes files
 * about the CPU affinity and about both versions of control groups, as Linux has them on machines,
 * in containers and in batch systems. Then it tests the names of the worker threads.
 */
#define _XOPEN_SOURCE 700
static char system_root[64];
#define VIT__ROOT system_root
#define VIT_STATIC
#define VIT_NO_SIMD
#define VIT_NO_PREPROCESS
#define VIT_UNOPTIMIZED /* The speed of this program does not matter. */
#define VIT_IMPLEMENTATION
#include "vit.h"

#include "test.h"

#if VIT__PROC

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define V1 "/sys/fs/cgroup/cpu,cpuacct"
#define V2 "/sys/fs/cgroup"

/* The files and folders that the test removes at the end. The deepest folders come last. */
static char written[64][1024];
static int num_written;

static void remember(const char *path) {
    snprintf(written[num_written++], sizeof written[0], "%s", path);
}

/* Writes a file below the test's root folder, and makes the folders above the file. */
static void put(const char *path, const char *text) {
    char whole[1024];
    FILE *file;
    snprintf(whole, sizeof whole, "%s%s", system_root, path);
    for (char *p = whole + strlen(system_root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        if (!mkdir(whole, 0777)) remember(whole);
        *p = '/';
    }
    file = fopen(whole, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file)) CHECK(!"a file can be written");
    remember(whole);
}

static void clear(void) {
    while (num_written) remove(written[--num_written]);
}

static void check_allowed(const char *status, int expected) {
    put("/proc/self/status", status);
    CHECK_MSG(vit__allowed_cores() == expected, "%.60s: %d, not %d", status, vit__allowed_cores(),
              expected);
    clear();
}

static void test_affinity(void) {
    static char text[20000];
    CHECK(vit__allowed_cores() == 0); /* There is no /proc at all. */
    check_allowed("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n", 8);
    check_allowed("Cpus_allowed:\t1\n", 1);
    check_allowed("Cpus_allowed:\t5\n", 2);
    check_allowed("Cpus_allowed:\t00000000,0000000f,f0000000\n", 8);
    check_allowed("Cpus_allowed:\tffffffff,ffffffff\n", 64);
    check_allowed("Cpus_allowed:\t0\n", 0);
    check_allowed("Cpus_allowed:\t3", 2);
    check_allowed("Cpus_allowed:\n", 0);
    check_allowed("Cpus_allowed_list:\t0-7\n", 0);
    check_allowed("Mems_allowed:\tffff\n", 0);
    check_allowed("", 0);
    /* With 4,096 CPUs, the line is longer than the buffer. */
    memset(text, 0, sizeof text);
    strcpy(text, "Cpus_allowed:\t");
    for (int i = 0; i < 128; i++) strcat(text, i ? ",00000f00" : "80000000");
    strcat(text, "\nMems_allowed:\tff\n");
    check_allowed(text, 1 + 127 * 4);
    /* The line comes after the 3,000 groups of a user, which are longer than the buffer. */
    memset(text, 0, sizeof text);
    strcpy(text, "Groups:\t");
    for (int i = 0; i < 3000; i++) strcat(text, "1ffff ");
    strcat(text, "\nCpus_allowed:\t7\n");
    check_allowed(text, 3);
    for (int pad = 100; pad < 140; pad++) {
        memset(text, 'x', (size_t)pad);
        strcpy(text + pad, "Cpus_allowed:\tff\nCpus_allowed:\t3\n");
        put("/proc/self/status", text);
        CHECK_MSG(vit__allowed_cores() == 2, "%d characters before: %d", pad, vit__allowed_cores());
        clear();
    }
    /* The file of the thread has priority over the file of the process. */
    put("/proc/self/status", "Cpus_allowed:\tff\n");
    put("/proc/thread-self/status", "Cpus_allowed:\t3\n");
    CHECK(vit__allowed_cores() == 2);
    clear();
}

static void check_quota(const char *what, int expected) {
    CHECK_MSG(vit__quota_cores() == expected, "%s: %d, not %d", what, vit__quota_cores(), expected);
}

/* Tests a file cpu.max in the root group, without any other groups. */
static void check_max(const char *text, int expected) {
    put("/proc/self/cgroup", "0::/\n");
    put(V2 "/cpu.max", text);
    check_quota(text, expected);
    clear();
}

static void check_cfs(const char *quota, const char *period, int expected) {
    put("/proc/self/cgroup", "12:memory:/\n4:cpu,cpuacct:/\n0::/\n");
    if (quota) put(V1 "/cpu.cfs_quota_us", quota);
    if (period) put(V1 "/cpu.cfs_period_us", period);
    check_quota(quota ? quota : "no quota", expected);
    clear();
}

static void test_numbers(void) {
    check_quota("nothing", 0);
    check_max("max 100000\n", 0);
    check_max("100000 100000\n", 1);
    check_max("200000 100000\n", 2);
    check_max("150000 100000\n", 2); /* The quota is one and a half CPUs. */
    check_max("50000 100000\n", 1);
    check_max("1000 100000\n", 1);
    check_max("200001 100000\n", 3);
    check_max("400000 50000\n", 8);
    check_max("400000 50000", 8);
    check_max("9999999999999 100000\n", VIT_MAX_THREADS);
    check_max("99999999999999999999999999 1\n", VIT_MAX_THREADS);
    check_max("100000 99999999999999999999999999\n", 1);
    check_max("", 0);
    check_max("\n", 0);
    check_max("100000\n", 0);
    check_max("0 100000\n", 0);
    check_max("100000 0\n", 0);
    check_max("-1 100000\n", 0);
    check_max("maximum\n", 0);
    check_max("x y z\n", 0);
    check_cfs("-1\n", "100000\n", 0);
    check_cfs("150000\n", "100000\n", 2);
    check_cfs("100000\n", "100000\n", 1);
    check_cfs("300000", "100000", 3);
    check_cfs("300000\n", NULL, 0);
    check_cfs(NULL, "100000\n", 0);
    check_cfs("0\n", "100000\n", 0);
    check_cfs("", "", 0);
}

#define POD "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d0a.slice"

static void test_groups(void) {
    static char line[5000];
    /* A service of systemd has its own limit, and its slice has another limit. */
    put("/proc/self/cgroup", "0::/system.slice/vit.service\n");
    put(V2 "/system.slice/vit.service/cpu.max", "400000 100000\n");
    check_quota("the service's", 4);
    put(V2 "/system.slice/cpu.max", "300000 100000\n");
    check_quota("the slice's, which is tighter", 3);
    put(V2 "/system.slice/vit.service/cpu.max", "100000 100000\n");
    check_quota("the service's, which is tighter", 1);
    put(V2 "/system.slice/other/cpu.max", "1000 100000\n");
    check_quota("not its neighbour's", 1);
    clear();
    /* Inside a container, the container's group is the root. The group's name outside the container
     * does not matter. */
    put("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    put(V2 "/cpu.max", "200000 100000\n");
    check_quota("the root's", 2);
    clear();
    put("/proc/self/cgroup", "0::/../../elsewhere\n");
    put(V2 "/cpu.max", "200000 100000\n");
    check_quota("the root's of a group outside", 2);
    clear();
    /* These are the files of Kubernetes with version 1 of control groups: first outside a
     * container, then inside. */
    put("/proc/self/cgroup", "11:cpu,cpuacct:" POD "/cri-0a1b.scope\n1:name=systemd:/\n");
    put(V1 POD "/cri-0a1b.scope/cpu.cfs_quota_us", "250000\n");
    put(V1 POD "/cri-0a1b.scope/cpu.cfs_period_us", "100000\n");
    check_quota("the container's", 3);
    put(V1 POD "/cpu.cfs_quota_us", "200000\n");
    put(V1 POD "/cpu.cfs_period_us", "100000\n");
    check_quota("the pod's", 2);
    put(V1 "/cpu.cfs_quota_us", "-1\n");
    put(V1 "/cpu.cfs_period_us", "100000\n");
    check_quota("not the root's, which is none", 2);
    clear();
    put("/proc/self/cgroup", "11:cpu,cpuacct:" POD "/cri-0a1b.scope\n");
    put(V1 "/cpu.cfs_quota_us", "100000\n");
    put(V1 "/cpu.cfs_period_us", "50000\n");
    check_quota("the root's", 2);
    clear();
    /* These files name the controllers in the order "cpuacct,cpu". Their folder is "cpuacct,cpu" or
     * "cpu". */
    put("/proc/self/cgroup", "7:cpuacct,cpu:/a\n");
    put("/sys/fs/cgroup/cpuacct,cpu/a/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpuacct,cpu/a/cpu.cfs_period_us", "100000\n");
    check_quota("cpuacct,cpu", 1);
    clear();
    put("/proc/self/cgroup", "7:cpuacct,cpu:/a\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    check_quota("cpu", 3);
    clear();
    put("/proc/self/cgroup", "7:cpuset,cpuacct:/a\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    check_quota("controllers that are not cpu", 0);
    clear();
    /* If both versions are in use, the lower limit counts. */
    put("/proc/self/cgroup", "4:cpu,cpuacct:/a\n0::/a\n");
    put(V1 "/a/cpu.cfs_quota_us", "300000\n");
    put(V1 "/a/cpu.cfs_period_us", "100000\n");
    put(V2 "/a/cpu.max", "200000 100000\n");
    check_quota("both", 2);
    clear();
    /* These contents are invalid. */
    put("/proc/self/cgroup", "0:\n:\n\n0\n4:cpu\n0::\n");
    check_quota("no lines of three parts", 0);
    clear();
    put("/proc/self/cgroup", "0::/a");
    put(V2 "/a/cpu.max", "200000 100000\n");
    check_quota("no newline", 2);
    clear();
    /* This path is longer than any buffer. Groups beyond the part that is read are ignored. */
    strcpy(line, "0::");
    for (int i = 0; i < 400; i++) strcat(line, "/abcdefghi");
    strcat(line, "\n4:cpu,cpuacct:/a\n");
    put("/proc/self/cgroup", line);
    put(V2 "/cpu.max", "500000 100000\n");
    put(V1 "/a/cpu.cfs_quota_us", "400000\n");
    put(V1 "/a/cpu.cfs_period_us", "100000\n");
    check_quota("a long path, and a line after it", 4);
    clear();
}

static void check_num_cores(const char *what, int expected) {
    vit_threads *pool;
    vit_executor executor;
    CHECK_MSG(vit__num_cores() == expected, "%s: %d, not %d", what, vit__num_cores(), expected);
    if (vit_threads_create(0, &pool, &executor) != VIT_OK) {
        CHECK_MSG(0, "%s: no pool", what);
        return;
    }
    CHECK_MSG(executor.num_threads == expected, "%s: a pool of %d", what, executor.num_threads);
    vit_threads_destroy(pool);
}

/* Tests all limits together. The default is the lowest of three numbers: the CPUs online, the CPUs
 * of the affinity, and the CPUs of the quota. */
static void test_all(void) {
    const int online = vit__online_cores();
    check_num_cores("no /proc", online);
    put("/proc/self/status", "Cpus_allowed:\tffffffff,ffffffff,ffffffff,ffffffff,ffffffff\n");
    check_num_cores("a mask of more than there are", online < 160 ? online : 160);
    put("/proc/self/cgroup", "0::/\n");
    put(V2 "/cpu.max", "100000 100000\n");
    check_num_cores("a quota of one", 1);
    put(V2 "/cpu.max", "max 100000\n");
    put("/proc/self/status", "Cpus_allowed:\t8\n");
    check_num_cores("one core allowed", 1);
    clear();
}

/* Returns the number of threads of this process that have this name. */
static int count_named(const char *name) {
    char path[300], found[64];
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    if (!folder) return -1;
    while ((entry = readdir(folder)) != NULL) {
        FILE *file;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "rb");
        if (!file) continue;
        if (fgets(found, sizeof found, file)) count += !strcmp(found, name);
        fclose(file);
    }
    closedir(folder);
    return count;
}

static void count_a_job(void *arg, int index) {
    (void)index;
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void test_names(void) {
    vit_threads *pool;
    vit_executor executor;
    int jobs = 0, tries, named = 0;
    CHECK(count_named("vit-worker\n") == 0);
    CHECK(vit_threads_create(4, &pool, &executor) == VIT_OK);
    executor.parallel_for(executor.user, 100, count_a_job, &jobs);
    CHECK(jobs == 100);
    for (tries = 0; tries < 1000 && named != 3; tries++) { /* A thread may start late. */
        named = count_named("vit-worker\n");
        if (named != 3) nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    }
    CHECK_MSG(named == 3, "%d threads are called vit-worker", named);
    vit_threads_destroy(pool);
}

int main(void) {
    strcpy(system_root, "/tmp/vit-cores-XXXXXX");
    if (!mkdtemp(system_root)) return 1;
    test_affinity();
    test_numbers();
    test_groups();
    test_all();
    test_names();
    CHECK(rmdir(system_root) == 0);
    return test_summary();
}

#else

int main(void) {
    test_skip("the number of cores", "no Linux here, or no files");
    return test_summary();
}

#endif
