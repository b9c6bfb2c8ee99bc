/* fuzz_labels.c - reads the input as a text file of labels. */
#define _GNU_SOURCE
#include "base/report.h"
#include "fuzz_path.h"
#include "model/labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    report r = report_make();
    label_list list;
    const bool good = labels_read_file(&list, fuzz_path(data, size), &r);
    fuzz_require(good || r.text[0], "a refusal says why");
    for (size_t i = 0; i < list.count; i++) {
        fuzz_require(list.labels[i][0] != '\0', "no label is empty");
        if (list.synsets) fuzz_require(list.synsets[i][0] == 'n', "a synset begins with n");
    }
    labels_free(&list);
    return 0;
}
