module example.org/vit/v2

go 1.19
