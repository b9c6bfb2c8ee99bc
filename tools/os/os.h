/* os.h - one set of functions for files, folders, pipes, memory and consoles. They are in posix.c
 * for Linux, macOS and the BSDs, in examples/web/vit/wasi.c for WebAssembly, in common.c for both,
 * and in windows.c for Windows. No other file under tools/ and examples/ depends on the system,
 * except image/sandbox.c, which is for Linux only.
 *
 * tools/os owns the differences between operating systems: paths, files, folders, pipes, consoles;
 * it may include no other floor.
 *
 * Paths and arguments are UTF-8 on Windows, and uninterpreted bytes elsewhere. A failing function
 * sets errno; os_error has its text.
 */
#ifndef OS_H
#define OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* main calls this first. On POSIX systems, it keeps files from taking the descriptor of a closed
 * standard stream (Windows' C library does so itself), and restores the default handling of
 * children. On Windows, it converts arguments to UTF-8, turns off the translation of line ends in
 * standard streams, and sets up the console for UTF-8 and escape sequences. */
void os_start(int *argc, char ***argv);

/* From now on, if a mapped file is truncated while it is read, the program prints a message and
 * ends with exit status 1. (On Windows no other program can truncate a mapped file.) */
void os_on_lost(const char *program);

/* Returns the text of strerror, or a clearer text if the file is open in another program. */
const char *os_error(int number);

/* === Files === */

typedef enum os_kind { OS_NONE, OS_FILE, OS_FOLDER, OS_OTHER } os_kind;

os_kind os_kind_of(const char *path);
/* Does not follow links to folders: they are OS_OTHER. */
os_kind os_kind_of_link(const char *path);
bool os_is_slash(char c); /* separators within a path */
/* Identifies the file behind a path, independently of its name; "-" stands for standard input.
 * False if there is no file. */
typedef struct os_identity {
    uint64_t volume, number;
} os_identity;
bool os_identify(const char *path, os_identity *to);
bool os_same_name(const char *a, const char *b); /* of files in one folder */
char *os_real_path(const char *path);            /* absolute, without links; malloc'ed */

FILE *os_fopen(const char *path, const char *mode);
/* Creates a file for writing; errno is EEXIST if it exists. The file gets the permissions of
 * `like`, unless that is NULL. */
FILE *os_create(const char *path, const char *like);
/* Opens or creates a file to read and write, and locks it; errno is EAGAIN if another process has
 * it locked. The function given to os_on_read is not called. */
FILE *os_open_alone(const char *path);
bool os_cut(FILE *file, uint64_t size); /* drops everything beyond */
size_t os_write_size(void);             /* best number of bytes for one write */
bool os_seek(FILE *file, uint64_t offset);
bool os_sync(FILE *file);       /* flushes to the disk */
bool os_close_copy(FILE *file); /* reports the errors that closing the file would report */
bool os_replace(const char *from, const char *to);    /* renames, at once */
bool os_rename_new(const char *from, const char *to); /* EEXIST: never replaces a file */
bool os_has_links(void);                              /* true if any user may make symbolic links */
bool os_link(const char *to, const char *path);       /* EEXIST: never replaces a file */
void os_copy_time(const char *from, const char *to);  /* time of the last change, if possible */
void os_remove(const char *path);
bool os_make_folder(const char *path);
void os_remove_empty(const char *path); /* a folder, unless it has contents */
/* Sets a function to call, on any thread, with the path of each file that is opened for reading. */
void os_on_read(void (*seen)(const char *path));
/* Sets a function to call when a signal or the keyboard is about to end the program. The function
 * may call only os_remove and os_remove_folder_late. */
void os_before_end(void (*clean)(void));
/* From now on the first Ctrl-C, SIGTERM or SIGHUP only makes os_stopped true; the second signal
 * ends the program. os_end_stopped ends the program by the first signal, so a loop in a shell ends
 * too. */
void os_stop_softly(void);
bool os_stopped(void);
void os_end_stopped(void);

/* A file by its descriptor, read-only. */
int os_open(const char *path);                     /* -1: failed */
bool os_file_size(int descriptor, uint64_t *size); /* returns false if it is not a regular file */
int64_t os_file_time(int descriptor);              /* time of its last change; -1 if unknown */
ptrdiff_t os_read_at(int descriptor, void *to, size_t size, uint64_t offset);
void os_close(int descriptor);

/* Ends of a pipe, to read from and to write to. */
bool os_pipe(int ends[2]);
/* Waits for bytes and reads some. Returns 0 at the end of the file, or when the other end of the
 * pipe `stop` has been closed; -1 on failure. */
ptrdiff_t os_read_until(int descriptor, int stop, void *to, size_t size);

/* The names in a folder, in any order, with "." and "..". */
typedef struct os_folder os_folder;
os_folder *os_folder_open(const char *path);
const char *os_folder_next(os_folder *folder);
void os_folder_close(os_folder *folder);

/* A file that is written to memory. os_memory_close returns its contents, malloc'ed, or NULL; a NUL
 * follows, which *size does not include. */
FILE *os_memory_open(char **text, size_t *size);
bool os_memory_close(FILE *file, char **text, size_t *size);

/* === Memory === */

/* Maps a whole regular file, for reading and writing; changes stay in memory. NULL if it is empty
 * or cannot be mapped. */
void *os_map(const char *path, size_t *size);
void os_unmap(void *data, size_t size);
/* Drops the pages of a mapped file; they will be read again when needed. */
void os_drop_pages(const void *data, size_t size);
void *os_allocate(size_t alignment, size_t size);
void os_free(void *memory); /* of os_allocate */

/* === This process and others === */

double os_now_ms(void);
bool os_is_terminal(FILE *file); /* a terminal that supports escape sequences */
char *os_executable(void);       /* its path, malloc'ed; NULL if unknown */
char *os_temporary_folder(void); /* malloc'ed */
long os_process(void);           /* a number that no other running process has */
double os_private_bytes(void);   /* bytes of memory without a file behind it; NaN if unknown */
/* Starts this program again with these arguments (its name first, NULL last), and reads `size`
 * bytes of its standard output. False if the program failed or wrote fewer bytes. */
bool os_run_again(char **arguments, void *output, size_t size);

/* Runs another program with the same streams and environment, and waits for it. The program is
 * found in PATH unless its name has a folder. *status is its exit status, or 128 and the signal
 * that ended it. Returns false if it did not start; errno is ENOENT if there is none. */
bool os_call(const char *const *arguments, int *status);

/* Runs another program in a new process group, with only the standard streams open. The group is
 * killed when the program or its time ends. (Windows has none.) */
typedef struct os_command {
    const char *program;         /* as os_find_program gives it */
    char *const *arguments;      /* its name first, NULL last */
    const char *folder;          /* its working folder, also for temporary files */
    const char *input;           /* its standard input is this file; NULL: nothing */
    const char *output, *errors; /* new files for its output */
    uint64_t memory, file;       /* limit in bytes of a process; of a file */
    int cpu_seconds, seconds;    /* limit of CPU time of a process; of wall-clock time of all */
    bool (*confine)(void);       /* called in the new process before the program begins; or NULL */
} os_command;

/* OS_NOT_STARTED: errno has the reason. OS_TOO_LARGE: a file exceeded its limit. Otherwise *status
 * is the exit status, or the signal that killed the program. */
typedef enum os_end { OS_ENDED, OS_KILLED, OS_TOO_LARGE, OS_LATE, OS_NOT_STARTED } os_end;
os_end os_run(const os_command *command, int *status);
char *os_find_program(const char *name); /* in PATH; malloc'ed; NULL: errno says why */

/* Makes a folder for temporary files that only this user may read; malloc'ed. */
char *os_make_temporary(void);
void os_remove_folder(const char *path); /* removes a folder and its contents */
/* Removes it in another process, for the function of os_before_end. */
void os_remove_folder_late(const char *path);

#endif
