module example.com/tollgate/uploads

go 1.23
