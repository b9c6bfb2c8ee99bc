/* paths.h - names of files, and where the bundled model is. */
#ifndef PATHS_H
#define PATHS_H

/* The bundled model, wherever the program is run from: beside the executable (../models, or
 * ../share/vit where it is installed), in ./models, or in VIT_MODEL_DIR if that was defined.
 * malloc'ed; NULL: not found, or no memory. */
char *paths_find_model(const char *name);

/* What follows the last slash. */
const char *paths_file_name(const char *path);

#endif
