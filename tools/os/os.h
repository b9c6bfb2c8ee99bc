/* os.h - declares functions for files, folders, pipes, memory and consoles. They are in posix.c for
 * Linux, macOS and the BSDs, in examples/web/vit/wasi.c for WebAssembly, in common.c for all of
 * these systems, and in windows.c for Windows. Among the other files of the programs, only
 * image/sandbox.c (for Linux) needs more of the system than POSIX threads.
 *
 * tools/os owns the differences between operating systems: paths, files, folders, pipes, consoles;
 * it may include no other floor.
 *
 * Paths and arguments are UTF-8 on Windows, and uninterpreted bytes elsewhere. A failing function
 * sets errno; os_error returns the text of the error.
 */
#ifndef OS_H
#define OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Prepares the program; main calls this function first. On POSIX systems, it prevents files from
 * getting the descriptor of a closed standard stream (Windows' C library does so itself), and
 * restores the default handling of child processes. On Windows, it converts arguments to UTF-8,
 * turns off the translation of line ends in standard streams, and sets up the console for UTF-8 and
 * escape sequences. */
void os_start(int *argc, char ***argv);

/* After this call, the program prints a message and ends with exit status 1 if another program
 * truncates a mapped file while it is read. Windows refuses to truncate mapped files. */
void os_on_lost(const char *program);

/* Returns the text of strerror for the error `number`. On Windows, returns a clearer text for
 * ETXTBSY (another program has the file open) and EILSEQ (the file's name is not UTF-8). */
const char *os_error(int number);

/* === Files === */

typedef enum os_kind { OS_NONE, OS_FILE, OS_FOLDER, OS_OTHER } os_kind;

/* Returns the kind of the file at a path; OS_NONE if there is no file. */
os_kind os_kind_of(const char *path);
/* Does the same as os_kind_of, but does not follow links to folders. Such links are OS_OTHER. */
os_kind os_kind_of_link(const char *path);
/* True if c separates the names in a path. */
bool os_is_slash(char c);
/* Identifies a file independently of its path: two paths lead to the same file if both members are
 * equal. The path "-" stands for standard input. os_identify returns false if there is no file. */
typedef struct os_identity {
    uint64_t volume, number;
} os_identity;
bool os_identify(const char *path, os_identity *to);
/* True if two names mean the same file within a folder. On some systems such names may differ in
 * case. */
bool os_same_name(const char *a, const char *b);
/* Returns the absolute path without links, in malloc'ed memory. */
char *os_real_path(const char *path);

FILE *os_fopen(const char *path, const char *mode);
/* Creates a file for writing. Fails with errno EEXIST if the file exists. If `like` is not NULL,
 * the new file gets the permissions of the file `like`, except on Windows. */
FILE *os_create(const char *path, const char *like);
/* Opens or creates a file to read and write, and locks it. Fails with errno EAGAIN if another
 * process has locked the file. Does not call the function that os_on_read has set. */
FILE *os_open_alone(const char *path);
bool os_cut(FILE *file, uint64_t size); /* removes all bytes after the first `size` bytes */
size_t os_write_size(void);             /* best number of bytes for one write */
bool os_seek(FILE *file, uint64_t offset);
bool os_sync(FILE *file); /* writes the flushed data of the file to the disk */
/* Returns true if closing the file would succeed. Leaves the file open in both cases. */
bool os_close_copy(FILE *file);
/* Renames a file, and replaces the file `to` in one step. */
bool os_replace(const char *from, const char *to);
bool os_rename_new(const char *from, const char *to); /* fails with errno EEXIST if `to` exists */
bool os_has_links(void);                              /* true if any user may make symbolic links */
bool os_link(const char *to, const char *path);       /* fails with errno EEXIST if `path` exists */
/* Copies the time of the last change from one file to another, if possible. */
void os_copy_time(const char *from, const char *to);
void os_remove(const char *path);
bool os_make_folder(const char *path);
void os_remove_empty(const char *path); /* removes a folder if it is empty */
/* Sets a function that receives, on any thread, the path of each file that is opened for
 * reading. */
void os_on_read(void (*seen)(const char *path));
/* Sets a function to call when a signal or the keyboard is about to end the program. The function
 * may call only os_remove and os_remove_folder_late. */
void os_before_end(void (*clean)(void));
/* After this call, the first Ctrl-C, SIGTERM or SIGHUP only makes os_stopped return true; the
 * second signal ends the program. If there was a first signal, os_end_stopped ends the program by
 * it, so that a shell loop around the program also ends. */
void os_stop_softly(void);
bool os_stopped(void);
void os_end_stopped(void);

/* These functions read a file through its descriptor. */
int os_open(const char *path);                     /* returns -1 on failure */
bool os_file_size(int descriptor, uint64_t *size); /* fails if it is not a regular file */
/* Returns the time of the file's last change, in units of the system; -1 if unknown. */
int64_t os_file_time(int descriptor);
ptrdiff_t os_read_at(int descriptor, void *to, size_t size, uint64_t offset);
void os_close(int descriptor);

/* Makes a pipe. ends[0] is the end for reading, and ends[1] is the end for writing. */
bool os_pipe(int ends[2]);
/* Waits for bytes, and reads up to `size` of them. Returns the number of bytes. Returns 0 at the
 * end of the file, or when the other end of the pipe `stop` has been closed. Returns -1 on
 * failure. */
ptrdiff_t os_read_until(int descriptor, int stop, void *to, size_t size);

/* These functions list the names in a folder, in any order, including "." and "..". */
typedef struct os_folder os_folder;
os_folder *os_folder_open(const char *path);
const char *os_folder_next(os_folder *folder);
void os_folder_close(os_folder *folder);

/* os_memory_open opens a file that is written to memory. os_memory_close closes the file and sets
 * *text to its contents, in malloc'ed memory, or to NULL on failure. A NUL follows the contents;
 * *size does not count this NUL. */
FILE *os_memory_open(char **text, size_t *size);
bool os_memory_close(FILE *file, char **text, size_t *size);

/* === Memory === */

/* Maps a whole regular file into memory for reading and writing. Changes do not reach the file.
 * Returns NULL if the file is empty or cannot be mapped. */
void *os_map(const char *path, size_t *size);
void os_unmap(void *data, size_t size);
/* Drops the pages of a mapped file from memory. The system reads them again when needed. */
void os_drop_pages(const void *data, size_t size);
void *os_allocate(size_t alignment, size_t size);
void os_free(void *memory); /* frees memory that os_allocate returned */

/* === This process and others === */

double os_now_ms(void);
bool os_is_terminal(FILE *file); /* true for a terminal that supports escape sequences */
char *os_executable(void);       /* returns the path of this program, malloc'ed; NULL if unknown */
char *os_temporary_folder(void); /* returns a malloc'ed path */
long os_process(void);           /* returns a number that no other running process has */
/* Returns the number of bytes of this process's memory that no file backs; NaN if unknown. */
double os_private_bytes(void);
/* Starts this program again with these arguments, and reads `size` bytes of its standard output.
 * arguments[0] is the name of the program, and a NULL ends the array. Returns false if the program
 * failed or wrote fewer bytes. */
bool os_run_again(char **arguments, void *output, size_t size);

/* Runs another program with the standard streams and environment of this one, and waits for it. The
 * program is searched for in PATH unless its name contains a folder. *status becomes its exit
 * status, or 128 plus the number of the signal that ended it. Returns false if no process was
 * started; errno is ENOENT if there is no such program. */
bool os_call(const char *const *arguments, int *status);

/* os_run runs another program in a new process group, with only the standard streams open. All
 * processes of the group are killed when the program ends or its time is over. (On Windows, this
 * function and those below fail or do nothing.) */
typedef struct os_command {
    const char *program; /* path of the program, as os_find_program returns it */
    /* The arguments. arguments[0] is the name of the program, and a NULL ends the array. */
    char *const *arguments;
    /* The working folder, in which the program also makes its temporary files. */
    const char *folder;
    const char *input; /* the file for standard input; NULL for empty input */
    /* The paths of new files for standard output and for standard error. */
    const char *output, *errors;
    /* Largest memory of a process, and largest size of a file, in bytes. */
    uint64_t memory, file;
    /* Largest CPU time of a process, and largest wall-clock time of the whole command. */
    int cpu_seconds, seconds;
    /* NULL, or a function that the new process calls first. If it fails, nothing is run. */
    bool (*confine)(void);
} os_command;

/* The ways in which a command can end. After OS_NOT_STARTED, errno has the reason. OS_TOO_LARGE
 * means that a file exceeded its limit, and OS_LATE that the command exceeded `seconds`. After
 * OS_ENDED, *status is the exit status. After OS_KILLED, *status is the signal that killed the
 * program. */
typedef enum os_end { OS_ENDED, OS_KILLED, OS_TOO_LARGE, OS_LATE, OS_NOT_STARTED } os_end;
os_end os_run(const os_command *command, int *status);
/* Returns the path of a program in PATH, malloc'ed; NULL on failure, and errno has the reason. */
char *os_find_program(const char *name);

/* Makes a folder, which only this user may read, for temporary files. Returns its path in malloc'ed
 * memory. */
char *os_make_temporary(void);
void os_remove_folder(const char *path); /* removes a folder and its contents */
/* Starts another process that removes a folder, so that the removal also works while this program
 * ends. The function of os_before_end may call this function. */
void os_remove_folder_late(const char *path);

#endif
