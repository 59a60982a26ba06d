module mailroom/tools/prices

go 1.26.0
