/* token_ids.c - prints the ids of many texts, for comparison with other tokenizers.
 *
 *     token_ids PATH CLEANING [CONTEXT [FLAGS]] <TEXTS >IDS
 *
 * In the input, the size of each text precedes its bytes. In the output, the number of each text's
 * ids precedes the ids. All of them are u32 in this machine's byte order. 0xffffffff stands for a
 * refused text. CLEANING is a value of text_cleaning. FLAGS 1 means lower_case. The program prints
 * facts about the tokenizer on stderr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/token_plan.h"
#include "text/tokenizer.h"

int main(int argc, char **argv) {
    tokenizer_source source = { 0 };
    tokenizer_blob blob;
    vit_tokenizer t;
    report r = report_make();
    uint32_t size, count;
    char *text = NULL;
    void *scratch = NULL;
    vit_text_ids ids;
    size_t text_size = 0, scratch_size = 0;
    if (argc < 3) return 2;
    source.path = argv[1];
    source.cleaning = (text_cleaning)atoi(argv[2]);
    source.context = argc > 3 ? atoi(argv[3]) : 0;
    source.lower_case = argc > 4 && atoi(argv[4]);
    if (!tokenizer_build(&source, &blob, &r)) {
        report_print(&r, "token_ids");
        return 1;
    }
    if (vit_tokenizer_open(blob.data, blob.size, &t)) return 1;
    fprintf(stderr, "%zu bytes, context %d, ids %d, begin %d, end %d, pad %d\n", blob.size,
            t.context, t.num_ids, t.begin, t.end, t.pad);
    ids.ids = malloc((size_t)t.context * sizeof *ids.ids);
    while (ids.ids && fread(&size, 4, 1, stdin) == 1) {
        const size_t need = vit_tokenize_size(&t, size);
        if (size > text_size || !text) {
            free(text);
            text = malloc(text_size = 2 * (size_t)size + 16);
        }
        if (need > scratch_size) {
            free(scratch);
            scratch = malloc(scratch_size = 2 * need);
        }
        if (!text || !scratch || fread(text, 1, size, stdin) != size) return 1;
        count = UINT32_MAX;
        if (!vit_tokenize(&t, text, size, scratch, scratch_size, &ids))
            count = (uint32_t)ids.num_ids;
        fwrite(&count, 4, 1, stdout);
        for (uint32_t i = 0; count != UINT32_MAX && i < count; i++)
            fwrite(&ids.ids[i], 4, 1, stdout);
    }
    free(text);
    free(scratch);
    free(ids.ids);
    free(blob.data);
    return 0;
}
