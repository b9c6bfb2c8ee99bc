/* os.h - declares functions for files, folders, pipes, memory and consoles. They are in posix.c for
 * Linux, macOS and the BSDs, in examples/web/vit/wasi.c for WebAssembly, in common.c for all of
 * these systems, and in windows.c for Windows. No other file under tools/ and examples/ depends on
 * the system, except image/sandbox.c, which is for Linux only.
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

/* main calls os_start first. On POSIX systems, os_start keeps files from taking the descriptor of a
 * closed standard stream (Windows' C library does so itself), and restores the default handling of
 * children. On Windows, os_start converts arguments to UTF-8, turns off the translation of line
 * ends in standard streams, and sets up the console for UTF-8 and escape sequences. */
void os_start(int *argc, char ***argv);

/* Sets the action for a mapped file that is truncated while it is read: the program prints a
 * message and ends with exit status 1. (On Windows, no other program can truncate a mapped
 * file.) */
void os_on_lost(const char *program);

/* Returns the text of strerror, or a clearer text if the file is open in another program. */
const char *os_error(int number);

/* === Files === */

typedef enum os_kind { OS_NONE, OS_FILE, OS_FOLDER, OS_OTHER } os_kind;

os_kind os_kind_of(const char *path);
/* Returns the kind of a file. Does not follow links to folders: such links are OS_OTHER. */
os_kind os_kind_of_link(const char *path);
bool os_is_slash(char c); /* true for a separator within a path */
/* Identifies the file behind a path, independently of its name; "-" stands for standard input.
 * Returns false if there is no file. */
typedef struct os_identity {
    uint64_t volume, number;
} os_identity;
bool os_identify(const char *path, os_identity *to);
bool os_same_name(const char *a, const char *b); /* true for equal names of files in one folder */
char *os_real_path(const char *path);            /* absolute path without links, malloc'ed */

FILE *os_fopen(const char *path, const char *mode);
/* Creates a file for writing; errno is EEXIST if it exists. The file gets the permissions of
 * `like`, unless `like` is NULL. */
FILE *os_create(const char *path, const char *like);
/* Opens or creates a file to read and write, and locks it; errno is EAGAIN if another process has
 * locked the file. Does not call the function of os_on_read. */
FILE *os_open_alone(const char *path);
bool os_cut(FILE *file, uint64_t size); /* removes all bytes after `size` */
size_t os_write_size(void);             /* best number of bytes for one write */
bool os_seek(FILE *file, uint64_t offset);
bool os_sync(FILE *file);       /* flushes to the disk */
bool os_close_copy(FILE *file); /* reports the errors that closing the file would report */
bool os_replace(const char *from, const char *to);    /* renames in one step */
bool os_rename_new(const char *from, const char *to); /* EEXIST: never replaces a file */
bool os_has_links(void);                              /* true if any user may make symbolic links */
bool os_link(const char *to, const char *path);       /* EEXIST: never replaces a file */
void os_copy_time(const char *from, const char *to);  /* time of the last change, if possible */
void os_remove(const char *path);
bool os_make_folder(const char *path);
void os_remove_empty(const char *path); /* a folder, unless it has contents */
/* Sets a function that receives, on any thread, the path of each file that is opened for
 * reading. */
void os_on_read(void (*seen)(const char *path));
/* Sets a function to call when a signal or the keyboard is about to end the program. The function
 * may call only os_remove and os_remove_folder_late. */
void os_before_end(void (*clean)(void));
/* Makes the first Ctrl-C, SIGTERM or SIGHUP only set os_stopped to true; the second signal ends the
 * program. os_end_stopped ends the program by the first signal, because a loop in a shell must end
 * too. */
void os_stop_softly(void);
bool os_stopped(void);
void os_end_stopped(void);

/* These functions read a file by its descriptor. */
int os_open(const char *path);                     /* returns -1 on failure */
bool os_file_size(int descriptor, uint64_t *size); /* returns false if it is not a regular file */
int64_t os_file_time(int descriptor);              /* time of its last change; -1 if unknown */
ptrdiff_t os_read_at(int descriptor, void *to, size_t size, uint64_t offset);
void os_close(int descriptor);

/* Makes a pipe: ends[0] is for reading, ends[1] for writing. */
bool os_pipe(int ends[2]);
/* Waits for bytes and reads some. Returns 0 at the end of the file, or when the other end of the
 * pipe `stop` has been closed; -1 on failure. */
ptrdiff_t os_read_until(int descriptor, int stop, void *to, size_t size);

/* Lists the names in a folder, in any order, with "." and "..". */
typedef struct os_folder os_folder;
os_folder *os_folder_open(const char *path);
const char *os_folder_next(os_folder *folder);
void os_folder_close(os_folder *folder);

/* Opens a file that is written to memory. os_memory_close returns the file's contents, malloc'ed,
 * or NULL. A NUL follows the contents; *size does not count this NUL. */
FILE *os_memory_open(char **text, size_t *size);
bool os_memory_close(FILE *file, char **text, size_t *size);

/* === Memory === */

/* Maps a whole regular file, for reading and writing; changes stay in memory. Returns NULL if the
 * file is empty or cannot be mapped. */
void *os_map(const char *path, size_t *size);
void os_unmap(void *data, size_t size);
/* Drops the pages of a mapped file from memory. The system reads them again when needed. */
void os_drop_pages(const void *data, size_t size);
void *os_allocate(size_t alignment, size_t size);
void os_free(void *memory); /* frees memory of os_allocate */

/* === This process and others === */

double os_now_ms(void);
bool os_is_terminal(FILE *file); /* true for a terminal with escape sequences */
char *os_executable(void);       /* path of this program, malloc'ed; NULL if unknown */
char *os_temporary_folder(void); /* malloc'ed */
long os_process(void);           /* a number that no other running process has */
double os_private_bytes(void);   /* bytes of memory without a file behind it; NaN if unknown */
/* Starts this program again with these arguments (its name first, NULL last), and reads `size`
 * bytes of its standard output. Returns false if the program failed or wrote fewer bytes. */
bool os_run_again(char **arguments, void *output, size_t size);

/* Runs another program with the same streams and environment, and waits for it. The program is
 * found in PATH unless its name has a folder. *status is its exit status, or 128 and the signal
 * that ended it. Returns false if the program did not start; errno is ENOENT if it does not
 * exist. */
bool os_call(const char *const *arguments, int *status);

/* Runs another program in a new process group, with only the standard streams open. The group is
 * killed when the program or its time ends. (Windows has no such commands.) */
typedef struct os_command {
    const char *program;         /* path, as from os_find_program */
    char *const *arguments;      /* the program's name first, NULL last */
    const char *folder;          /* working folder, also for temporary files */
    const char *input;           /* file for standard input; NULL: empty */
    const char *output, *errors; /* new files for standard output and standard error */
    uint64_t memory, file;       /* limits in bytes: memory of a process, and size of a file */
    int cpu_seconds, seconds;    /* limits: CPU time of a process, and wall-clock time of all */
    bool (*confine)(void);       /* called in the new process before the program begins; or NULL */
} os_command;

/* How a command ended. OS_NOT_STARTED: errno has the reason. OS_TOO_LARGE: a file exceeded its
 * limit. Otherwise *status is the exit status, or the signal that killed the program. */
typedef enum os_end { OS_ENDED, OS_KILLED, OS_TOO_LARGE, OS_LATE, OS_NOT_STARTED } os_end;
os_end os_run(const os_command *command, int *status);
char *os_find_program(const char *name); /* path from PATH, malloc'ed; NULL: see errno */

/* Makes a folder for temporary files, which only this user may read. Returns its path,
 * malloc'ed. */
char *os_make_temporary(void);
void os_remove_folder(const char *path); /* removes a folder and its contents */
/* Removes a folder in another process. The function of os_before_end may call this function. */
void os_remove_folder_late(const char *path);

#endif
