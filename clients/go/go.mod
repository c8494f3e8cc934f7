module tollgate-gateway.example/clients/go

go 1.23
