module mailroom/tools/deploy

go 1.26.0
