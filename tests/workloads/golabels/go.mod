module example.com/golabels

go 1.18
