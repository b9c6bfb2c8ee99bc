/* paths.h - names of files, and where the bundled model is. */
#ifndef PATHS_H
#define PATHS_H

#include <stddef.h>

/* The bundled model, wherever the program is run from: beside the executable (../models, or
 * ../share/vit where it is installed), in ./models, or in VIT_MODEL_DIR if that was defined.
 * malloc'ed; NULL: not found, or no memory. */
char *paths_find_model(const char *name);

/* What follows the last slash; of "folder/" it is that. */
const char *paths_file_name(const char *path);
/* Length of what is before that: the folder, with its slash; 0 if none is named. */
size_t paths_folder_length(const char *path);

#endif
