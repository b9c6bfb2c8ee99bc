/* paths.h - parts of a path, and where the bundled model is. */
#ifndef PATHS_H
#define PATHS_H

#include <stddef.h>

/* The bundled model, wherever the program is run from: next to the executable (../models, or
 * ../share/vit once installed), in ./models, or in VIT_MODEL_DIR if that was defined at compile
 * time. malloc'ed; NULL: not found, or out of memory. */
char *paths_find_model(const char *name);

/* What follows the last slash, not counting one at the end: "b" for "a/b", "b/" for "a/b/". */
const char *paths_file_name(const char *path);
/* Separator between a folder and a name in it: "/", or "" if the folder ends with a slash. */
const char *paths_slash(const char *folder);
/* Length of the folder, with its slash; 0 if the path names none. */
size_t paths_folder_length(const char *path);

#endif
