#include "os/os.h"

#if defined(_WIN32)

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <psapi.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <malloc.h>
#include <math.h>
#include <shellapi.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* === Errors === */

/* Returns the errno for an error number of Windows. ETXTBSY stands for "open in another program".
 * The C library defines ETXTBSY but never uses it. */
static int error_number(DWORD error) {
    switch (error) {
    case ERROR_SUCCESS: return 0;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_BAD_NETPATH:
    case ERROR_BAD_PATHNAME:
    case ERROR_INVALID_DRIVE: return ENOENT;
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_USER_MAPPED_FILE: return ETXTBSY;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS: return EEXIST;
    case ERROR_NOT_SAME_DEVICE: return EXDEV;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL: return ENOSPC;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY: return ENOMEM;
    case ERROR_FILENAME_EXCED_RANGE: return ENAMETOOLONG;
    case ERROR_WRITE_PROTECT: return EROFS;
    case ERROR_INVALID_NAME: return EINVAL;
    case ERROR_NO_UNICODE_TRANSLATION: return EILSEQ;
    case ERROR_TOO_MANY_OPEN_FILES: return EMFILE;
    case ERROR_DIRECTORY: return ENOTDIR;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA: return EPIPE;
    case ERROR_ACCESS_DENIED: return EACCES;
    default: return EIO;
    }
}

static bool failed(void) {
    errno = error_number(GetLastError());
    return false;
}

const char *os_error(int number) {
    switch (number) {
    case ETXTBSY: return "the file is open in another program";
    case EILSEQ: return "its name is not UTF-8";
    default: return strerror(number);
    }
}

/* === Text === */

/* Converts UTF-8 to UTF-16 in malloc'ed memory. Returns NULL if memory is exhausted, or if the text
 * is not UTF-8. */
static wchar_t *to_wide(const char *text) {
    const int size = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = size > 0 ? malloc((size_t)size * sizeof *wide) : NULL;
    if (wide) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, size);
    else errno = size > 0 ? ENOMEM : EILSEQ;
    return wide;
}

static char *to_utf8(const wchar_t *wide) {
    const int size = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = size > 0 ? malloc((size_t)size) : NULL;
    if (text) WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, size, NULL, NULL);
    return text;
}

/* Makes the path absolute, and adds the prefix that paths of more than 260 characters require.
 * Frees `path` unless it returns `path`. */
static wchar_t *lengthened(wchar_t *path) {
    const DWORD size = GetFullPathNameW(path, 0, NULL, NULL);
    wchar_t *full = size ? malloc(((size_t)size + 8) * sizeof *full) : NULL, *from;
    if (!full) return path;
    from = full + 8;
    GetFullPathNameW(path, size, from, NULL);
    if (wcsncmp(from, L"\\\\", 2) == 0) {
        wmemcpy(full, L"\\\\?\\UNC", 7);
        wmemmove(full + 7, from + 1, wcslen(from));
    } else {
        wmemcpy(full, L"\\\\?\\", 4);
        wmemmove(full + 4, from, wcslen(from) + 1);
    }
    free(path);
    return full;
}

static wchar_t *wide_path(const char *path) {
    enum { LONG = 240 }; /* A folder's path must leave space for the name of a file. */
    wchar_t *wide = to_wide(path);
    const bool prefixed = wide && wcsncmp(wide, L"\\\\?\\", 4) == 0;
    wchar_t *full;
    if (!wide || prefixed) return wide;
    full = wcslen(wide) < LONG ? _wfullpath(NULL, wide, 0) : NULL;
    if (full && wcslen(full) < LONG) {
        free(full);
        return wide;
    }
    free(full);
    return lengthened(wide);
}

/* Converts a path of the system to UTF-8, without the prefix for long paths. */
static char *plain_path(wchar_t *wide) {
    if (wcsncmp(wide, L"\\\\?\\UNC\\", 8) == 0) {
        wide += 6;
        *wide = L'\\';
    } else if (wcsncmp(wide, L"\\\\?\\", 4) == 0) {
        wide += 4;
    }
    return to_utf8(wide);
}

/* === The start of a program === */

static void start_console(DWORD number) {
    const HANDLE handle = GetStdHandle(number);
    DWORD mode;
    if (GetConsoleMode(handle, &mode))
        SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

/* Gives the x87 unit the same precision in all threads. The exp and log of MinGW-w64 use the x87,
 * and results must be equal in all threads. MinGW sets 64 bits in the first thread, and the system
 * sets 53 bits in all other threads. */
static void start_x87(void) {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
    const unsigned short control = 0x27f;
    __asm__ __volatile__("fldcw %0" : : "m"(control));
#endif
}

/* Starts the program (see os.h). If memory is exhausted, the arguments stay unchanged. */
void os_start(int *argc, char ***argv) {
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), argc);
    char **arguments = wide ? malloc(((size_t)*argc + 1) * sizeof *arguments) : NULL;
    if (arguments) {
        for (int i = 0; i < *argc; i++) arguments[i] = to_utf8(wide[i]);
        arguments[*argc] = NULL;
        *argv = arguments;
    }
    LocalFree(wide);
    start_x87();
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stderr), _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
    start_console(STD_OUTPUT_HANDLE);
    start_console(STD_ERROR_HANDLE);
}

/* === Files === */

static bool attributes(const char *path, DWORD *found) {
    wchar_t *wide = wide_path(path);
    *found = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    if (wide && *found == INVALID_FILE_ATTRIBUTES) (void)failed();
    free(wide);
    return *found != INVALID_FILE_ATTRIBUTES;
}

static bool is_device(const char *path) {
    wchar_t *wide = to_wide(path);
    HANDLE file = wide ? CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
                                     OPEN_EXISTING, 0, NULL)
                       : INVALID_HANDLE_VALUE;
    const bool device = file != INVALID_HANDLE_VALUE && GetFileType(file) != FILE_TYPE_DISK;
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    free(wide);
    return device;
}

os_kind os_kind_of(const char *path) {
    DWORD found;
    const bool exists = attributes(path, &found);
    if (exists && found & FILE_ATTRIBUTE_DIRECTORY) return OS_FOLDER;
    if (is_device(path)) return OS_OTHER;
    return exists ? OS_FILE : OS_NONE;
}

os_kind os_kind_of_link(const char *path) {
    DWORD found;
    if (!attributes(path, &found)) return OS_NONE;
    if (!(found & FILE_ATTRIBUTE_DIRECTORY)) return os_kind_of(path);
    return found & FILE_ATTRIBUTE_REPARSE_POINT ? OS_OTHER : OS_FOLDER;
}

bool os_is_slash(char c) { return c == '/' || c == '\\'; }

/* Opens a handle of a file, even if another program has opened the file without sharing it. */
static HANDLE open_name(const char *path) {
    wchar_t *wide = wide_path(path);
    HANDLE file = wide
                      ? CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                    NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL)
                      : INVALID_HANDLE_VALUE;
    if (wide && file == INVALID_HANDLE_VALUE) (void)failed();
    free(wide);
    return file;
}

bool os_identify(const char *path, os_identity *to) {
    const bool is_input = strcmp(path, "-") == 0;
    HANDLE file = is_input ? GetStdHandle(STD_INPUT_HANDLE) : open_name(path);
    BY_HANDLE_FILE_INFORMATION found;
    const bool good = file != INVALID_HANDLE_VALUE && GetFileInformationByHandle(file, &found);
    if (good) {
        to->volume = found.dwVolumeSerialNumber;
        to->number = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow;
    }
    if (file != INVALID_HANDLE_VALUE && !is_input) CloseHandle(file);
    return good;
}

bool os_same_name(const char *a, const char *b) {
    wchar_t *first = to_wide(a), *second = first ? to_wide(b) : NULL;
    const bool same = second && CompareStringOrdinal(first, -1, second, -1, TRUE) == CSTR_EQUAL;
    free(first);
    free(second);
    return same;
}

static void (*on_read)(const char *path);

void os_on_read(void (*seen)(const char *path)) { on_read = seen; }

char *os_real_path(const char *path) {
    HANDLE file = open_name(path);
    wchar_t *wide;
    char *real = NULL;
    DWORD size;
    if (file == INVALID_HANDLE_VALUE) return NULL;
    size = GetFinalPathNameByHandleW(file, NULL, 0, 0);
    wide = malloc(((size_t)size + 1) * sizeof *wide);
    if (wide && size && GetFinalPathNameByHandleW(file, wide, size + 1, 0)) {
        real = plain_path(wide);
    } else if (wide) {
        /* Some file systems do not support this call. The path is then only made absolute. */
        free(wide);
        wide = to_wide(path);
        wide = wide ? lengthened(wide) : NULL;
        real = wide ? plain_path(wide) : NULL;
    }
    CloseHandle(file);
    free(wide);
    return real;
}

/* Opens a file and returns its descriptor. Returns -1 on failure. Other programs can read, rename
 * and remove the file while it is open, as on other systems. */
static int open_descriptor(const char *path, DWORD access, DWORD how, int flags) {
    wchar_t *wide = wide_path(path);
    DWORD share = FILE_SHARE_READ | FILE_SHARE_DELETE;
    HANDLE file;
    int descriptor;
    if (!wide) return -1;
    if (access == GENERIC_READ) share |= FILE_SHARE_WRITE;
    file = CreateFileW(wide, access, share, NULL, how, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) {
        const DWORD error = GetLastError(), found = GetFileAttributesW(wide);
        errno = error_number(error);
        if (errno == EACCES && found != INVALID_FILE_ATTRIBUTES && found & FILE_ATTRIBUTE_DIRECTORY)
            errno = EISDIR;
    }
    free(wide);
    if (file == INVALID_HANDLE_VALUE) return -1;
    descriptor = _open_osfhandle((intptr_t)file, flags | _O_BINARY | _O_NOINHERIT);
    if (descriptor < 0) CloseHandle(file);
    return descriptor;
}

static FILE *as_file(int descriptor, const char *mode) {
    FILE *file = descriptor < 0 ? NULL : _fdopen(descriptor, mode);
    if (descriptor >= 0 && !file) _close(descriptor);
    return file;
}

FILE *os_fopen(const char *path, const char *mode) {
    if (mode[0] == 'r') return as_file(os_open(path), "rb");
    return as_file(open_descriptor(path, GENERIC_WRITE, CREATE_ALWAYS, _O_WRONLY), "wb");
}

FILE *os_open_alone(const char *path) {
    const int descriptor = open_descriptor(path, GENERIC_READ | GENERIC_WRITE, OPEN_ALWAYS,
                                           _O_RDWR);
    if (descriptor < 0 && errno == ETXTBSY) errno = EAGAIN;
    return as_file(descriptor, "r+b");
}

bool os_cut(FILE *file, uint64_t size) {
    return fflush(file) == 0 && _chsize_s(_fileno(file), (int64_t)size) == 0;
}

size_t os_write_size(void) { return 1 << 16; }

FILE *os_create(const char *path, const char *like) {
    (void)like; /* A new file gets its permissions from its folder. */
    return as_file(open_descriptor(path, GENERIC_WRITE | DELETE, CREATE_NEW, _O_WRONLY), "wb");
}

bool os_seek(FILE *file, uint64_t offset) {
    return _fseeki64(file, (int64_t)offset, SEEK_SET) == 0;
}

bool os_sync(FILE *file) { return _commit(_fileno(file)) == 0; }

bool os_close_copy(FILE *file) {
    const int copy = _dup(_fileno(file));
    errno = 0;
    return copy < 0 || _close(copy) == 0;
}

/* True if the file cannot be replaced because another program has opened it. */
static bool is_busy(const wchar_t *path) {
    HANDLE file = CreateFileW(path, DELETE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                              NULL, OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (file == INVALID_HANDLE_VALUE) return GetLastError() == ERROR_SHARING_VIOLATION;
    CloseHandle(file);
    return false;
}

bool os_replace(const char *from, const char *to) {
    wchar_t *source = wide_path(from), *target = source ? wide_path(to) : NULL;
    bool good = target &&
                MoveFileExW(source, target, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
    if (target && !good) {
        (void)failed();
        if (errno == EACCES && is_busy(target)) errno = ETXTBSY;
    }
    free(source);
    free(target);
    return good;
}

bool os_rename_new(const char *from, const char *to) {
    wchar_t *source = wide_path(from), *target = source ? wide_path(to) : NULL;
    bool good = target && MoveFileExW(source, target, MOVEFILE_WRITE_THROUGH);
    if (target && !good) (void)failed();
    free(source);
    free(target);
    return good;
}

/* Returns false. Only an administrator, or a developer with a system setting, may create links. */
bool os_has_links(void) { return false; }

bool os_link(const char *to, const char *path) {
    (void)to, (void)path;
    errno = ENOSYS;
    return false;
}

void os_copy_time(const char *from, const char *to) {
    wchar_t *source = wide_path(from), *target = source ? wide_path(to) : NULL;
    HANDLE file = target
                      ? CreateFileW(target, FILE_WRITE_ATTRIBUTES, 0, NULL, OPEN_EXISTING, 0, NULL)
                      : INVALID_HANDLE_VALUE;
    WIN32_FILE_ATTRIBUTE_DATA found;
    if (file != INVALID_HANDLE_VALUE) {
        if (GetFileAttributesExW(source, GetFileExInfoStandard, &found))
            SetFileTime(file, NULL, NULL, &found.ftLastWriteTime);
        CloseHandle(file);
    }
    free(source);
    free(target);
}

void os_remove(const char *path) {
    wchar_t *wide = wide_path(path);
    if (wide) DeleteFileW(wide);
    free(wide);
}

bool os_make_folder(const char *path) {
    wchar_t *wide = wide_path(path);
    const bool good = wide && CreateDirectoryW(wide, NULL);
    if (wide && !good) (void)failed();
    free(wide);
    return good;
}

void os_on_lost(const char *program) { (void)program; }

static void (*before_end)(void);

static volatile LONG is_caught, is_soft, is_stopped;

static BOOL WINAPI on_event(DWORD event) {
    const bool asks = event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
    if (is_soft && asks && !InterlockedExchange(&is_stopped, 1)) return TRUE;
    if (before_end) before_end();
    return FALSE; /* The default action follows and ends the program. */
}

static void catch_events(void) {
    if (!is_caught) SetConsoleCtrlHandler(on_event, TRUE);
    is_caught = 1;
}

void os_before_end(void (*clean)(void)) {
    before_end = clean;
    catch_events();
}

void os_stop_softly(void) {
    is_soft = 1;
    catch_events();
}

bool os_stopped(void) { return is_stopped != 0; }

void os_end_stopped(void) {
    if (is_stopped) ExitProcess(STATUS_CONTROL_C_EXIT);
}

int os_open(const char *path) {
    if (on_read) on_read(path);
    return open_descriptor(path, GENERIC_READ, OPEN_EXISTING, _O_RDONLY);
}

static HANDLE handle_of(int descriptor) { return (HANDLE)_get_osfhandle(descriptor); }

bool os_file_size(int descriptor, uint64_t *size) {
    const HANDLE file = handle_of(descriptor);
    LARGE_INTEGER bytes;
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &bytes)) return false;
    *size = (uint64_t)bytes.QuadPart;
    return true;
}

int64_t os_file_time(int descriptor) {
    FILETIME time;
    if (!GetFileTime(handle_of(descriptor), NULL, NULL, &time)) return -1;
    return (int64_t)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime);
}

ptrdiff_t os_read_at(int descriptor, void *to, size_t size, uint64_t offset) {
    OVERLAPPED at;
    DWORD got;
    memset(&at, 0, sizeof at);
    at.Offset = (DWORD)offset;
    at.OffsetHigh = (DWORD)(offset >> 32);
    if (ReadFile(handle_of(descriptor), to, (DWORD)size, &got, &at)) return (ptrdiff_t)got;
    if (GetLastError() == ERROR_HANDLE_EOF) return 0;
    (void)failed();
    return -1;
}

void os_close(int descriptor) { _close(descriptor); }

bool os_pipe(int ends[2]) { return _pipe(ends, 1 << 16, _O_BINARY | _O_NOINHERIT) == 0; }

/* Waits until `pipe` has data or is closed. Returns false if `stop` is closed before that. The
 * system cannot wait for two pipes, so the function checks both in turn. */
static bool wait_for_bytes(HANDLE pipe, int stop) {
    DWORD ready;
    for (;;) {
        if (!PeekNamedPipe(handle_of(stop), NULL, 0, NULL, &ready, NULL)) return false;
        if (!PeekNamedPipe(pipe, NULL, 0, NULL, &ready, NULL) || ready) return true;
        Sleep(1);
    }
}

ptrdiff_t os_read_until(int descriptor, int stop, void *to, size_t size) {
    const HANDLE file = handle_of(descriptor);
    DWORD got;
    if (GetFileType(file) == FILE_TYPE_PIPE && !wait_for_bytes(file, stop)) return 0;
    if (ReadFile(file, to, (DWORD)size, &got, NULL)) return (ptrdiff_t)got;
    if (GetLastError() == ERROR_BROKEN_PIPE || GetLastError() == ERROR_HANDLE_EOF) return 0;
    (void)failed();
    return -1;
}

struct os_folder {
    HANDLE search;
    bool started;
    WIN32_FIND_DATAW found;
    char *name;
};

os_folder *os_folder_open(const char *path) {
    os_folder *folder = calloc(1, sizeof *folder);
    char *pattern = malloc(strlen(path) + 3);
    wchar_t *wide = NULL;
    if (pattern) {
        strcat(strcpy(pattern, path), "/*");
        wide = wide_path(pattern);
    }
    if (folder && wide) {
        folder->search = FindFirstFileW(wide, &folder->found);
        if (folder->search == INVALID_HANDLE_VALUE) {
            (void)failed();
            free(folder);
            folder = NULL;
        }
    } else {
        free(folder);
        folder = NULL;
    }
    free(wide);
    free(pattern);
    return folder;
}

const char *os_folder_next(os_folder *folder) {
    if (folder->started && !FindNextFileW(folder->search, &folder->found)) return NULL;
    folder->started = true;
    free(folder->name);
    folder->name = to_utf8(folder->found.cFileName);
    return folder->name;
}

void os_folder_close(os_folder *folder) {
    FindClose(folder->search);
    free(folder->name);
    free(folder);
}

/* Opens a temporary file. The system keeps the file in memory if enough is free, and removes the
 * file when it is closed. */
FILE *os_memory_open(char **text, size_t *size) {
    char *folder = os_temporary_folder();
    wchar_t *wide = folder ? to_wide(folder) : NULL, path[MAX_PATH + 1];
    HANDLE file = INVALID_HANDLE_VALUE;
    int descriptor;
    *text = NULL;
    *size = 0;
    if (wide && GetTempFileNameW(wide, L"vit", 0, path))
        file = CreateFileW(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, CREATE_ALWAYS,
                           FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    if (file == INVALID_HANDLE_VALUE) (void)failed();
    free(wide);
    free(folder);
    if (file == INVALID_HANDLE_VALUE) return NULL;
    descriptor = _open_osfhandle((intptr_t)file, _O_RDWR | _O_BINARY | _O_NOINHERIT);
    if (descriptor < 0) CloseHandle(file);
    return as_file(descriptor, "w+b");
}

bool os_memory_close(FILE *file, char **text, size_t *size) {
    const int64_t length = fflush(file) == 0 && !ferror(file) ? _ftelli64(file) : -1;
    *text = length >= 0 ? malloc((size_t)length + 1) : NULL;
    *size = length >= 0 ? (size_t)length : 0;
    if (*text) {
        rewind(file);
        (*text)[*size] = '\0';
        if (fread(*text, 1, *size, file) != *size) {
            free(*text);
            *text = NULL;
        }
    }
    fclose(file);
    return *text != NULL;
}

/* === Memory === */

void *os_map(const char *path, size_t *size) {
    const int descriptor = os_open(path);
    HANDLE mapping = NULL;
    void *data = NULL;
    uint64_t bytes;
    if (descriptor < 0) return NULL;
    if (os_file_size(descriptor, &bytes) && bytes > 0 && bytes <= SIZE_MAX)
        mapping = CreateFileMappingW(handle_of(descriptor), NULL, PAGE_WRITECOPY, 0, 0, NULL);
    if (mapping) {
        *size = (size_t)bytes;
        data = MapViewOfFile(mapping, FILE_MAP_COPY, 0, 0, 0);
        CloseHandle(mapping);
    }
    _close(descriptor);
    return data;
}

void os_unmap(void *data, size_t size) {
    (void)size;
    UnmapViewOfFile(data);
}

/* VirtualUnlock removes pages from the working set if they are not locked. */
void os_drop_pages(const void *data, size_t size) { VirtualUnlock((void *)(uintptr_t)data, size); }

void *os_allocate(size_t alignment, size_t size) { return _aligned_malloc(size, alignment); }

void os_free(void *memory) { _aligned_free(memory); }

/* === Processes === */

double os_now_ms(void) {
    LARGE_INTEGER count, per_second;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&per_second);
    return 1e3 * (double)count.QuadPart / (double)per_second.QuadPart;
}

bool os_is_terminal(FILE *file) {
    DWORD mode;
    return GetConsoleMode(handle_of(_fileno(file)), &mode) &&
           (mode & ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

static wchar_t *executable(void) {
    enum { LONGEST = 32768 };
    wchar_t *path = malloc(LONGEST * sizeof *path);
    const DWORD length = path ? GetModuleFileNameW(NULL, path, LONGEST) : 0;
    if (length > 0 && length < LONGEST) return path;
    free(path);
    return NULL;
}

char *os_executable(void) {
    wchar_t *path = executable();
    char *text = path ? plain_path(path) : NULL;
    free(path);
    return text;
}

char *os_temporary_folder(void) {
    wchar_t folder[MAX_PATH + 1];
    const DWORD length = GetTempPathW(MAX_PATH + 1, folder);
    /* removes the last backslash */
    if (length > 0 && length <= MAX_PATH) folder[length - 1] = L'\0';
    return to_utf8(length > 0 && length <= MAX_PATH ? folder : L".");
}

long os_process(void) { return (long)GetCurrentProcessId(); }

double os_private_bytes(void) {
    PROCESS_MEMORY_COUNTERS counters;
    if (!K32GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters))
        return (double)NAN;
    return (double)counters.PagefileUsage;
}

/* Writes an argument in quotes, in the form that CommandLineToArgvW reads. Backslashes before a
 * quote are doubled. */
static wchar_t *put_quoted(wchar_t *to, const wchar_t *from) {
    size_t slashes = 0;
    *to++ = L'"';
    for (; *from; from++) {
        if (*from == L'"')
            for (slashes++; slashes; slashes--) *to++ = L'\\';
        slashes = *from == L'\\' ? slashes + 1 : 0;
        *to++ = *from;
    }
    for (; slashes; slashes--) *to++ = L'\\';
    *to++ = L'"';
    return to;
}

static wchar_t *command_line(const char *const *arguments) {
    size_t size = 1;
    wchar_t *line, *to;
    for (int i = 0; arguments[i]; i++) size += 2 * strlen(arguments[i]) + 3;
    line = to = malloc(size * sizeof *line);
    for (int i = 0; line && arguments[i]; i++) {
        wchar_t *wide = to_wide(arguments[i]);
        if (!wide) {
            free(line);
            return NULL;
        }
        to = put_quoted(to, wide);
        *to++ = L' ';
        free(wide);
    }
    if (line) *to = L'\0';
    return line;
}

static bool read_all(HANDLE from, char *to, size_t size) {
    DWORD got;
    while (size > 0) {
        if (!ReadFile(from, to, (DWORD)size, &got, NULL) || got == 0) return false;
        to += got;
        size -= got;
    }
    return true;
}

bool os_run_again(char **arguments, void *output, size_t size) {
    SECURITY_ATTRIBUTES inherited = { sizeof inherited, NULL, TRUE };
    wchar_t *program = executable(), *line = command_line((const char *const *)arguments);
    PROCESS_INFORMATION child;
    STARTUPINFOW start;
    HANDLE from = NULL, to = NULL;
    DWORD status = 1;
    bool good = program && line && CreatePipe(&from, &to, &inherited, 0);
    memset(&start, 0, sizeof start);
    start.cb = sizeof start;
    start.dwFlags = STARTF_USESTDHANDLES;
    start.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    start.hStdOutput = to;
    start.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    if (good) SetHandleInformation(from, HANDLE_FLAG_INHERIT, 0);
    good = good && CreateProcessW(program, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child);
    if (!good) (void)failed();
    if (to) CloseHandle(to);
    if (good) {
        good = read_all(from, output, size);
        WaitForSingleObject(child.hProcess, INFINITE);
        GetExitCodeProcess(child.hProcess, &status);
        CloseHandle(child.hProcess);
        CloseHandle(child.hThread);
    }
    if (from) CloseHandle(from);
    free(program);
    free(line);
    return good && status == 0;
}

/* Returns the path of a program in malloc'ed memory. Returns NULL if there is none. The current
 * folder is searched only if PATH contains it. */
static wchar_t *program_path(const char *name) {
    enum { LONGEST = 32768 };
    wchar_t *wide = to_wide(name), *folders = malloc(LONGEST * sizeof *folders);
    wchar_t *path = malloc(LONGEST * sizeof *path);
    DWORD length = 0;
    if (wide && folders && path && GetEnvironmentVariableW(L"PATH", folders, LONGEST) < LONGEST)
        length = SearchPathW(folders, wide, L".exe", LONGEST, path, NULL);
    free(wide);
    free(folders);
    if (length > 0 && length < LONGEST) return path;
    free(path);
    errno = ENOENT;
    return NULL;
}

bool os_call(const char *const *arguments, int *status) {
    wchar_t *program = program_path(arguments[0]);
    wchar_t *line = program ? command_line(arguments) : NULL;
    PROCESS_INFORMATION child;
    STARTUPINFOW start;
    DWORD ended = 1;
    bool good = line != NULL;
    memset(&start, 0, sizeof start);
    start.cb = sizeof start;
    start.dwFlags = STARTF_USESTDHANDLES;
    start.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    start.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    start.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    if (good) {
        good = CreateProcessW(program, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child);
        if (!good) (void)failed();
    }
    if (good) {
        WaitForSingleObject(child.hProcess, INFINITE);
        GetExitCodeProcess(child.hProcess, &ended);
        CloseHandle(child.hProcess);
        CloseHandle(child.hThread);
        *status = (int)ended;
    }
    free(program);
    free(line);
    return good;
}

void os_remove_empty(const char *path) {
    wchar_t *wide = wide_path(path);
    if (wide) RemoveDirectoryW(wide);
    free(wide);
}

/* === Commands with limits: these functions fail on Windows === */

char *os_find_program(const char *name) {
    (void)name;
    errno = ENOSYS;
    return NULL;
}

os_end os_run(const os_command *command, int *status) {
    (void)command, (void)status;
    errno = ENOSYS;
    return OS_NOT_STARTED;
}

char *os_make_temporary(void) {
    errno = ENOSYS;
    return NULL;
}

void os_remove_folder(const char *path) { (void)path; }
void os_remove_folder_late(const char *path) { (void)path; }

#endif
