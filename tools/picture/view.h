/* view.h - a photo with a colour for each patch painted over it, where the patch lies. */
#ifndef VIEW_H
#define VIEW_H

#include "image/crop.h"
#include "picture/picture.h"

typedef struct view {
    picture photo;            /* its longer side as long as was asked */
    crop place;
} view;

/* The photo is not needed afterwards. Empty if it fails. */
bool view_make(view *v, const vit_image *photo, const vit_config *config, int side, report *r);
void view_free(view *v);

/* The photo under one colour for each patch, [rows * columns], as opaque as said (0 .. 1); what the
 * model does not see is dim, and a line lies around what it sees. patches may be NULL: the photo
 * itself. The picture is the caller's. */
bool view_paint(const view *v, const picture_colour *patches, double opacity, picture *painted,
                report *r);

/* A frame around a patch. */
void view_mark(const view *v, picture *painted, int patch);

#endif
